//! What the Dockerfile makes is what the Kubernetes example runs, as far as that can be seen without
//! building it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use yaml_rust2::{Yaml, YamlLoader};

/// An instruction and what follows it.
type Instruction = (String, String);

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn deploy(name: &str) -> String {
    fs::read_to_string(top().join("config/deploy").join(name)).unwrap()
}

fn instructions() -> Vec<Instruction> {
    let text = deploy("Dockerfile").replace("\\\n", " ");
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').expect("an instruction says something"))
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// The instructions of the last stage, and those before it.
fn stages() -> (Vec<Instruction>, Vec<Instruction>) {
    let mut first = instructions();
    let at = first.iter().rposition(|(word, _)| word == "FROM").unwrap();
    let last = first.split_off(at);
    (last, first)
}

fn said(stage: &[Instruction], word: &str) -> Vec<String> {
    stage.iter().filter(|(one, _)| one == word).map(|(_, rest)| rest.clone()).collect()
}

fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).expect("the form that needs no shell, as there may be none")
}

fn kubernetes(kind: &str) -> Yaml {
    let documents = YamlLoader::load_from_str(&deploy("kubernetes.yaml")).unwrap();
    documents.into_iter().find(|one| one["kind"].as_str() == Some(kind)).unwrap()
}

#[test]
fn every_instruction_is_one() {
    const KNOWN: [&str; 10] = [
        "FROM",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
        "ENV",
    ];
    let all = instructions();
    assert_eq!(all[0].0, "FROM");
    for (word, rest) in &all {
        assert!(KNOWN.contains(&word.as_str()), "{word} {rest}");
    }
    assert!(said(&all, "FROM").iter().all(|from| from.contains(':')), "a version of each");
    for run in said(&all, "RUN").iter().filter(|run| run.contains("apt-get install")) {
        assert!(run.contains("--no-install-recommends") && run.contains("rm -rf /var/lib/apt"));
    }
}

#[test]
fn what_is_built_is_what_is_run() {
    let (last, first) = stages();
    let build = said(&first, "RUN").into_iter().find(|run| run.contains("cargo build")).unwrap();
    assert!(build.contains("--locked") && build.contains("--profile dist"), "{build}");
    let manifest = fs::read_to_string(top().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("\n[profile.dist]\n") && top().join("Cargo.lock").exists());
    let folder = said(&first, "WORKDIR").pop().unwrap();
    let copied = said(&last, "COPY").pop().unwrap();
    let copied: Vec<_> = copied.split(' ').collect();
    let built = format!("{folder}/target/dist/towpath");
    assert_eq!(copied[..2], ["--from=build", built.as_str()]);
    assert_eq!(list(&said(&last, "ENTRYPOINT")[0]), copied[2..]);
    // What it is started with is understood.
    let arguments = list(&said(&last, "CMD")[0]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let output = command.args(&arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("/etc/towpath/towpath.toml"), "{arguments:?}: {error}");
}

#[test]
fn what_is_not_to_be_sent_along_is_left_out() {
    let ignored = deploy("Dockerfile.dockerignore");
    for folder in ["**/target", ".git"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder}");
    }
    let comment = deploy("Dockerfile");
    assert!(comment.contains("docker build -f config/deploy/Dockerfile"), "beside that file");
}

#[test]
fn kubernetes_runs_that_image() {
    let (last, _) = stages();
    let pod = &kubernetes("Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let arguments: Vec<_> =
        container["args"].as_vec().unwrap().iter().filter_map(Yaml::as_str).collect();
    assert_eq!(list(&said(&last, "CMD")[0]), arguments);
    let exposed = said(&last, "EXPOSE").pop().unwrap();
    let exposed: Vec<i64> = exposed.split(' ').map(|port| port.parse().unwrap()).collect();
    let ports = container["ports"].as_vec().unwrap().iter();
    let ports: Vec<_> = ports.filter_map(|port| port["containerPort"].as_i64()).collect();
    assert_eq!(exposed, ports);
    let user = said(&last, "USER").pop().unwrap();
    let id = pod["spec"]["securityContext"]["runAsUser"].as_i64().unwrap();
    assert_eq!(user.split(':').next(), Some(id.to_string().as_str()), "a number: runAsNonRoot");
    assert_eq!(said(&last, "STOPSIGNAL"), ["SIGTERM"]);

    // Where its configuration is mounted, and what is watched.
    let mount = &container["volumeMounts"][0];
    let volume = &pod["spec"]["volumes"][0];
    assert!(arguments[1].starts_with(mount["mountPath"].as_str().unwrap()));
    assert_eq!(mount["name"].as_str(), volume["name"].as_str());
    assert_eq!(
        volume["configMap"]["name"].as_str(),
        kubernetes("ConfigMap")["metadata"]["name"].as_str()
    );
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"].as_str(), Some(ports[1].to_string().as_str()));
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&kubernetes("Deployment")["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&kubernetes("Service")["spec"]["selector"], labels);
}

#[test]
fn the_configuration_of_kubernetes_passes_check() {
    let configuration =
        kubernetes("ConfigMap")["data"]["towpath.toml"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("towpath.toml");
    fs::write(&path, configuration).unwrap();
    let pod = &kubernetes("Deployment")["spec"]["template"]["spec"];
    let check = |with: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("check").arg(&path).env_remove("APP_PASSWORD").env_remove("ADMIN_TOKEN");
        for variable in pod["containers"][0]["env"].as_vec().unwrap().iter().filter(|_| with) {
            command.env(variable["name"].as_str().unwrap(), "a-long-enough-secret");
        }
        command.output().unwrap()
    };
    let output = check(true);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!check(false).status.success(), "the environment is where it gets its secrets from");
}

#[test]
fn systemd_s_sockets_are_those_of_an_ordinary_configuration() {
    let sockets = deploy("towpath.socket");
    let streams: Vec<_> =
        sockets.lines().filter_map(|line| line.strip_prefix("ListenStream=")).collect();
    let text = fs::read_to_string(top().join("config/complete.toml")).unwrap();
    for stream in streams {
        let port = stream.rsplit_once(':').unwrap().1;
        assert!(text.contains(&format!(":{port}\"")), "{stream}");
    }
    let service = deploy("towpath.service");
    assert!(
        service.contains("ExecStartPre=/usr/local/bin/towpath check /etc/towpath/towpath.toml")
    );
}
