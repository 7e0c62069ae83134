//! The programs a demo needs, and how the distribution's packages bring those that are missing.
//!
//! Only apt is run. With another package manager, or without the rights, the command to type is
//! printed: a demo must not guess its way through somebody's system.

use super::screen::Screen;
use super::{Stop, command};
use anyhow::{Context, anyhow};
use rustix::process::geteuid;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::{env, fs};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

/// Each program and the Debian package that has it. None of them brings a service: those are in
/// `mariadb-server`, which is not among them.
const NEEDED: [(&str, &str); 4] = [
    ("mariadbd", "mariadb-server-core"),
    ("mariadb-install-db", "mariadb-server-core"),
    ("mariadb", "mariadb-client-core"),
    ("openssl", "openssl"),
];

/// What other package managers call them.
const ELSEWHERE: [(&str, &str); 4] = [
    ("dnf", "dnf install mariadb-server mariadb openssl"),
    ("zypper", "zypper install mariadb mariadb-client openssl"),
    ("pacman", "pacman -S mariadb mariadb-clients openssl"),
    ("apk", "apk add bash coreutils util-linux mariadb mariadb-client openssl"),
];

/// Sees to it that every program is there. Installs what is missing if `yes`, or if the person at
/// the terminal says so.
///
/// [`Stop::Refused`] with the command to type where it must not or cannot install.
pub(super) async fn ensure(
    yes: bool,
    screen: &Screen,
    stop: &CancellationToken,
) -> Result<(), Stop> {
    let missing = missing(|program| find(program).is_some());
    if missing.is_empty() {
        return Ok(());
    }
    let sudo = find("sudo").is_some();
    let plan = plan(&missing, |program| find(program).is_some(), geteuid().is_root(), sudo);
    let install = match plan {
        Plan::Install(install) => install,
        Plan::Tell(text) => return Err(Stop::Refused(text)),
    };
    let may = yes || (io::stdin().is_terminal() && agreed(screen, &install)?);
    if !may {
        let text = format!("install them, or say --yes:\n  {}", install.shown());
        return Err(Stop::Refused(lacking(&missing, &text)));
    }
    install.run(screen, stop).await
}

/// Where `program` is: in PATH, or where servers' programs are when PATH does not say.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(usual).map(|dir| dir.join(program)).find(|file| runs(file))
}

fn runs(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The packages to install, without repetition, in the order of the table.
fn missing(there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> =
        NEEDED.iter().filter(|(program, _)| !there(program)).map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Install(Install),
    Tell(String),
}

#[derive(Debug, PartialEq, Eq)]
struct Install {
    sudo: bool,
    packages: Vec<&'static str>,
}

fn plan(missing: &[&'static str], there: impl Fn(&str) -> bool, root: bool, sudo: bool) -> Plan {
    let install = Install { sudo: !root, packages: missing.to_vec() };
    if there("apt-get") {
        return match root || sudo {
            true => Plan::Install(install),
            false => {
                let text = Install { sudo: false, ..install }.shown();
                Plan::Tell(lacking(missing, &format!("as root, type:\n  {text}")))
            }
        };
    }
    let known = ELSEWHERE.iter().find(|(manager, _)| there(manager));
    let text = known.map_or_else(
        || {
            "install the server and client programs of MariaDB (mariadbd, mariadb-install-db, \
             mariadb) and openssl"
                .to_owned()
        },
        |(_, line)| format!("as root, type:\n  {line}"),
    );
    Plan::Tell(lacking(missing, &text))
}

fn lacking(missing: &[&str], text: &str) -> String {
    format!("the demo needs programs of {}, which are not installed; {text}", missing.join(", "))
}

fn agreed(screen: &Screen, install: &Install) -> io::Result<bool> {
    screen.line("The demo needs MariaDB's programs. It would run (no service is started):");
    screen.line(&format!("  {}", install.shown()));
    screen.ask("Install them now? [Y/n] ")?;
    let mut answer = String::new();
    if io::stdin().read_line(&mut answer)? == 0 {
        return Ok(false);
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

impl Install {
    /// The command as one would type it.
    fn shown(&self) -> String {
        let sudo = if self.sudo { "sudo " } else { "" };
        let packages = self.packages.join(" ");
        format!("{sudo}apt-get update && {sudo}apt-get install --no-install-recommends {packages}")
    }

    /// Index, download, install. Only the last, which takes seconds, is not interrupted: a package
    /// that is unpacked by half is not "nothing touched".
    async fn run(&self, screen: &Screen, stop: &CancellationToken) -> Result<(), Stop> {
        let step = screen.step("installing the distribution's packages");
        step.update("reading the package index");
        self.apt(&["update"], stop).await?;
        step.update(&format!("downloading {}", self.packages.join(" ")));
        self.apt(&["install", "--download-only"], stop).await?;
        step.update(&format!("unpacking {}", self.packages.join(" ")));
        self.apt(&["install"], &CancellationToken::new()).await?;
        if stop.is_cancelled() {
            return Err(Stop::Interrupted);
        }
        step.done("packages installed");
        Ok(())
    }

    async fn apt(&self, action: &[&str], stop: &CancellationToken) -> Result<(), Stop> {
        let mut child = self.command(action);
        let output = child.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = tokio::select! {
            output = output => output.context("cannot start apt-get")?,
            () = stop.cancelled() => return Err(Stop::Interrupted),
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if self.sudo && without_rights(&said) {
            let text = Self { sudo: false, packages: self.packages.clone() }.shown();
            return Err(Stop::Refused(format!("{}\nas root, type:\n  {text}", said.trim())));
        }
        Err(Stop::Failed(failure(action, output.status, &said, &self.shown())))
    }

    fn command(&self, action: &[&str]) -> Command {
        let words = ["-q", "-y", "--no-install-recommends"];
        let options = ["DPkg::Lock::Timeout=300", "Acquire::Retries=5"];
        let mut child = if self.sudo {
            // In the terminal's foreground, because sudo asks for the password there.
            let mut child = Command::new("sudo");
            if !io::stdin().is_terminal() {
                child.arg("-n");
            }
            child.args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).kill_on_drop(true);
            child
        } else {
            let mut child = command("apt-get");
            child.env("DEBIAN_FRONTEND", "noninteractive");
            child
        };
        child.args(words).args(options.iter().flat_map(|option| ["-o", option])).args(action);
        if action.contains(&"install") {
            child.args(&self.packages);
        }
        child
    }
}

/// Whether it is sudo that has said no, and not apt.
fn without_rights(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("sudo:") || line.contains("not in the sudoers"))
}

fn failure(action: &[&str], status: ExitStatus, said: &str, shown: &str) -> anyhow::Error {
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(8)..].join("\n  ");
    anyhow!("apt-get {} failed ({status}):\n  {tail}\nthe command is:\n  {shown}", action.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed_and_once() {
        assert!(missing(|_| true).is_empty());
        assert_eq!(missing(|_| false), ["mariadb-server-core", "mariadb-client-core", "openssl"]);
        assert_eq!(missing(|program| program != "mariadb"), ["mariadb-client-core"]);
    }

    #[test]
    fn root_and_sudo_install_and_others_are_told() {
        let apt = |program: &str| program == "apt-get";
        let packages = vec!["openssl"];
        let install = |sudo| Plan::Install(Install { sudo, packages: packages.clone() });
        assert_eq!(plan(&["openssl"], apt, true, false), install(false));
        assert_eq!(plan(&["openssl"], apt, true, true), install(false));
        assert_eq!(plan(&["openssl"], apt, false, true), install(true));
        let Plan::Tell(text) = plan(&["openssl"], apt, false, false) else { panic!("no rights") };
        assert!(
            text.contains("apt-get install --no-install-recommends openssl")
                && text.contains("as root"),
            "{text}"
        );
    }

    #[test]
    fn other_managers_get_their_own_command() {
        let Plan::Tell(text) = plan(&["openssl"], |p| p == "dnf", true, true) else {
            panic!("dnf is not run")
        };
        assert!(text.contains("dnf install mariadb-server"), "{text}");
        let Plan::Tell(text) = plan(&["openssl"], |_| false, true, true) else { panic!("none") };
        assert!(text.contains("mariadb-install-db"), "{text}");
    }

    #[test]
    fn command_shown_is_the_command_run() {
        let install = Install { sudo: true, packages: vec!["mariadb-client-core", "openssl"] };
        assert_eq!(
            install.shown(),
            "sudo apt-get update && sudo apt-get install --no-install-recommends \
             mariadb-client-core openssl"
        );
        let run = format!("{:?}", install.command(&["install"]).as_std());
        assert!(run.contains("\"--no-install-recommends\""), "{run}");
        assert!(run.ends_with("\"install\" \"mariadb-client-core\" \"openssl\""), "{run}");
        let update = format!("{:?}", install.command(&["update"]).as_std());
        assert!(update.ends_with("\"update\""), "{update}");
    }

    #[test]
    fn refusal_of_sudo_is_told_from_a_failure_of_apt() {
        assert!(without_rights("sudo: a password is required\n"));
        assert!(without_rights("\nboat is not in the sudoers file.\n"));
        assert!(!without_rights("E: Unable to locate package openssl\n"));
    }

    #[test]
    fn programs_are_found_by_being_runnable() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
        assert!(!runs(Path::new("/etc/passwd")));
    }
}
