//! The arrows between the crates, and the sizes of their files.

use cargo_metadata::{MetadataCommand, Package};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lines of production code that no file exceeds.
const LONGEST_FILE: usize = 600;
/// Lines that nine files of ten do not exceed.
const LONG_FILE: usize = 350;

/// Who may depend on whom, by folder. `filters` stands for every crate below that folder.
const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sql", &[]),
    ("chain", &["wire", "sql"]),
    ("filters", &["chain", "wire", "sql"]),
    ("proxy", &["chain", "wire", "sql"]),
    ("towpath", &["proxy", "filters", "chain", "wire", "sql"]),
    ("e2e", &["wire"]),
    ("compare", &["e2e", "wire"]),
    ("plugin", &["chain", "towpath"]),
];

/// Dependencies that a crate must not have: bytes without I/O.
const BANNED: &[(&str, &[&str])] = &[
    ("wire", &["tokio", "tokio-util", "tokio-rustls", "rustls", "socket2", "mio"]),
    ("sql", &["tokio", "tokio-util", "tokio-rustls", "rustls", "socket2", "mio"]),
];

fn packages() -> (PathBuf, Vec<Package>) {
    let metadata = MetadataCommand::new()
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata");
    (metadata.workspace_root.clone().into(), metadata.packages)
}

/// The room a package lives in: its name, or `filters` for all of those.
fn room(package: &Package, root: &Path) -> String {
    let folder = package.manifest_path.as_std_path();
    match folder.strip_prefix(root).ok().and_then(|path| path.iter().next()) {
        Some(first) if first == "filters" => "filters".to_owned(),
        _ => package.name.to_string(),
    }
}

/// What is wrong with the dependencies of `name` in `room`: one line for each.
fn wrong_arrows(name: &str, room: &str, needs: &[(String, Option<String>)]) -> Vec<String> {
    let allowed = ARROWS.iter().find(|(from, _)| *from == room).map(|(_, to)| *to);
    let banned = BANNED.iter().find(|(from, _)| *from == room).map_or(&[][..], |(_, to)| *to);
    let mut wrong = Vec::new();
    for (dependency, to) in needs {
        match (to, allowed) {
            (Some(_), None) => {
                wrong.push(format!("{name} -> {dependency}: no room is known for {name}"));
            }
            (Some(to), Some(allowed)) if !allowed.contains(&to.as_str()) => {
                wrong.push(format!("{name} -> {dependency}: {room} may only know {allowed:?}"));
            }
            (None, _) if banned.contains(&dependency.as_str()) => {
                wrong.push(format!("{name} -> {dependency}: {room} has no I/O"));
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn arrows_point_the_right_way() {
    let (root, packages) = packages();
    let wrong: Vec<String> = packages
        .iter()
        .flat_map(|package| {
            let needs: Vec<_> = package
                .dependencies
                .iter()
                .map(|dependency| {
                    let ours = packages.iter().find(|other| *other.name == dependency.name);
                    (dependency.name.clone(), ours.map(|other| room(other, &root)))
                })
                .collect();
            wrong_arrows(&package.name, &room(package, &root), &needs)
        })
        .collect();
    assert!(wrong.is_empty(), "wrong arrows:\n{}", wrong.join("\n"));
}

#[test]
fn a_wrong_arrow_is_named() {
    let needs = |name: &str, room: Option<&str>| vec![(name.to_owned(), room.map(str::to_owned))];
    let cases = [
        ("hints", "filters", needs("rules", Some("filters"))),
        ("rules", "filters", needs("proxy", Some("proxy"))),
        ("chain", "chain", needs("proxy", Some("proxy"))),
        ("wire", "wire", needs("tokio", None)),
        ("stranger", "stranger", needs("wire", Some("wire"))),
    ];
    for (name, room, needs) in cases {
        let wrong = wrong_arrows(name, room, &needs);
        assert_eq!(wrong.len(), 1, "{name} -> {needs:?}");
        assert!(wrong[0].starts_with(&format!("{name} -> {}", needs[0].0)), "{wrong:?}");
    }
    assert!(wrong_arrows("hints", "filters", &needs("chain", Some("chain"))).is_empty());
    assert!(wrong_arrows("wire", "wire", &needs("bytes", None)).is_empty());
}

#[test]
fn files_are_short() {
    let (root, packages) = packages();
    let mut sizes = Vec::new();
    for package in &packages {
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        measure(&folder.as_std_path().join("src"), &root, &mut sizes);
    }
    assert!(sizes.len() > 20, "sources not found: {sizes:?}");
    sizes.sort();
    let too_long: Vec<_> = sizes.iter().filter(|(lines, _)| *lines > LONGEST_FILE).collect();
    assert!(too_long.is_empty(), "over {LONGEST_FILE} lines: {too_long:?}");
    let p90 = &sizes[sizes.len() * 9 / 10];
    assert!(p90.0 <= LONG_FILE, "nine of ten files must have {LONG_FILE} lines at most: {p90:?}");
}

#[test]
fn no_file_is_called_mod() {
    let (root, packages) = packages();
    let mut sizes = Vec::new();
    for package in &packages {
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        measure(folder.as_std_path(), &root, &mut sizes);
    }
    let wrong: Vec<_> = sizes.iter().filter(|(_, path)| path.ends_with("/mod.rs")).collect();
    assert!(wrong.is_empty(), "a parent file stands beside the folder of its name: {wrong:?}");
}

/// Lines of production code of each Rust file below `folder`.
fn measure(folder: &Path, root: &Path, sizes: &mut Vec<(usize, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            measure(&path, root, sizes);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file is text");
            let name = path.strip_prefix(root).unwrap_or(&path);
            sizes.push((production_lines(&text), name.display().to_string()));
        }
    }
}

/// Lines that are not blank and stand before the file's test module.
fn production_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]"
            && pair[1].trim().starts_with("mod ")
            && pair[1].ends_with('{')
    });
    lines[..tests.unwrap_or(lines.len())].iter().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn test_modules_do_not_count() {
    let text = "use x;\n\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    assert_eq!(production_lines(text), 2);
    assert_eq!(production_lines("#[cfg(test)]\nmod tests;\nfn a() {}\n"), 3);
}
