//! The real MultiLangDaemon for tests: its jars are fetched when first asked for, and each daemon is gone with the test process.
//!
//! Never skips silently: a missing tool fails the test and says what to install. The jars are those of `infra/kcl/pom.xml`.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::aws::CREDENTIALS;
use crate::services::java;

/// A daemon with its children, in a process group of their own. All of it ends when it is dropped, or this process ends.
#[derive(Debug)]
pub(crate) struct MultiLang {
    group: Child,
    log: PathBuf,
}

impl MultiLang {
    /// Runs a command that starts a daemon, in this folder, in which its log is kept under this name. Java, and the folder of the command
    /// `revsync`, are on its path, and nothing else of this process's environment is there.
    pub(crate) fn start(command: &[&str], folder: &Path, name: &str, environment: &[(&str, &str)]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let java = java();
        let folders = [java.parent(), Path::new(env!("CARGO_BIN_EXE_revsync")).parent(), Some("/usr/bin".as_ref()), Some("/bin".as_ref())];
        let path = std::env::join_paths(folders.into_iter().flatten()).expect("folders without a colon");
        let out = File::options().create(true).append(true).open(&log).expect("a log file");
        // The shell ends the whole group when its input ends, so that however this process ends, the daemon and its children do too.
        let group = Command::new("sh")
            .args(["-c", r#""$@" < /dev/null & cat > /dev/null; kill -KILL 0"#, "sh"])
            .args(command)
            .process_group(0)
            .current_dir(folder)
            .env_clear()
            .env("PATH", path)
            .envs(CREDENTIALS)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(out.try_clone().expect("an open file"))
            .stderr(out)
            .spawn()
            .expect("a shell");
        Self { group, log }
    }

    /// Ends the daemon and its children at once.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Sends everyone of the group the signal that ends it in good order, as a service manager does, and waits until all have ended.
    pub(crate) fn terminate(mut self) {
        assert!(signal("-TERM", self.group.id()), "a group of ours");
        // The shell ends at once, and the others when they are done.
        self.group.wait().expect("a child of ours");
        for _ in 0..600 {
            if !signal("-0", self.group.id()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("the daemon does not end: {}", self.last_words());
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log.
    pub(crate) fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn end(&mut self) {
        signal("-KILL", self.group.id());
        let _ = self.group.wait();
    }
}

impl Drop for MultiLang {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a signal to a process group; whether there is one.
fn signal(signal: &str, group: u32) -> bool {
    let mut kill = Command::new("kill");
    kill.args([signal, "--", &format!("-{group}")]).stderr(Stdio::null());
    kill.status().is_ok_and(|status| status.success())
}

const ADVICE: &str = "Tests under the MultiLangDaemon need Maven (Debian: apt install maven) and a JDK of 21 or newer; \
                      set REVSYNC_TEST_SERVICES=none to leave them out.";

/// The folder with the daemon's jars, fetched with Maven if they are not there yet.
pub(crate) fn jars() -> PathBuf {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/kcl/pom.xml");
    let wanted = fs::read_to_string(&recipe).expect("the daemon's jars");
    let cache = std::env::var_os("REVSYNC_TEST_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../services"), PathBuf::from)
        .join("kcl");
    fs::create_dir_all(&cache).unwrap_or_else(|error| panic!("cannot make {}: {error}", cache.display()));
    let cache = cache.canonicalize().expect("a folder");
    let (jars, complete) = (cache.join("jars"), cache.join("complete"));
    // Several test processes may want them at once; the lock goes when the file is closed.
    let lock = File::create(cache.join("lock")).expect("a lock file");
    lock.lock().expect("a lock on a file of our own");
    if fs::read_to_string(&complete).is_ok_and(|fetched| fetched == wanted) {
        return jars;
    }
    eprintln!("fetching the MultiLangDaemon with Maven into {}", cache.display());
    let _ = fs::remove_dir_all(&jars);
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(&recipe)
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .output()
        .unwrap_or_else(|error| panic!("cannot run mvn: {error}. {ADVICE}"));
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "Maven could not fetch the MultiLangDaemon: {}. {ADVICE}", said());
    fs::write(complete, wanted).expect("a marker file");
    jars
}
