//! A Prometheus that scrapes the example.

use std::{
    env,
    ffi::OsString,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A binary, and the variable that names its path.
pub(crate) type Binary = (&'static str, &'static str);

const PROMETHEUS: Binary = ("prometheus", "LIMITER_PROMETHEUS");
pub(crate) const PROMTOOL: Binary = ("promtool", "LIMITER_PROMTOOL");

/// How long the server may take to start, on a machine that is busy with other tests.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Returns the binary that the variable names, or else the one that is installed. Without one the
/// test fails, it is not skipped.
pub(crate) fn binary((name, variable): &Binary) -> OsString {
    let found = env::var_os(variable);
    let found = found.or_else(|| limiter_rig::server::on_path(name.as_ref()).map(Into::into));
    found.unwrap_or_else(|| {
        panic!(
            "no {name} to test with: run `cargo xtask test`, which fetches one, or install one, or \
             set {variable} to the path of a binary"
        )
    })
}

/// A server on a free port, with the example's alerts. It is killed on drop.
pub(crate) struct Prometheus {
    process: Child,
    address: String,
    folder: PathBuf,
}

impl Prometheus {
    /// Starts a server that scrapes `target` each second.
    pub(crate) fn start(target: &str) -> Self {
        let name = format!("prometheus-{}-{:?}", id(), thread::current().id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{alerts:?}]\n\
             scrape_configs:\n\
             - job_name: example\n  \
               static_configs: [{{ targets: [{target:?}] }}]\n"
        );
        println!("$ cat prometheus.yml\n{config}");
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        // The port is free again when the server binds it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let process = Command::new(binary(&PROMETHEUS))
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let prometheus = Self { process, address, folder };
        prometheus.wait_until(STARTS_WITHIN, || prometheus.get("/-/ready", &[]).is_some());
        prometheus
    }

    /// Sends a request, with further arguments of curl. Returns the body, unless the request failed.
    fn get(&self, path: &str, arguments: &[&str]) -> Option<String> {
        let mut curl = Command::new("curl");
        curl.args(["-sf", "--max-time", "30"]).args(arguments);
        curl.arg(format!("http://{}{path}", self.address)).env("NO_PROXY", "127.0.0.1");
        let output = curl.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Waits until `is_done`, which is asked ten times a second.
    pub(crate) fn wait_until(&self, within: Duration, mut is_done: impl FnMut() -> bool) {
        let deadline = Instant::now() + within;
        while !is_done() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "not within {within:?}; the log:\n{}", log());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the state of an alert: `inactive`, `pending` or `firing`.
    pub(crate) fn alert(&self, name: &str) -> String {
        let alerts = self.get("/api/v1/alerts", &[]).expect("the server answers");
        let alerts: Value = serde_json::from_str(&alerts).unwrap();
        let alerts = alerts["data"]["alerts"].as_array().unwrap();
        let alert = alerts.iter().find(|alert| alert["labels"]["alertname"] == name);
        alert.map_or("inactive", |alert| alert["state"].as_str().unwrap()).to_owned()
    }

    /// Returns the results of a query: labels and a value each.
    pub(crate) fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let argument = format!("query={expression}");
        let answer = self.get("/api/v1/query", &["--data-urlencode", &argument]);
        let answer = answer.unwrap_or_else(|| panic!("the server can't evaluate {expression}"));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let results = answer["data"]["result"].as_array().unwrap().iter();
        let value = |result: &Value| result["value"][1].as_str().unwrap().parse().unwrap();
        results.map(|result| (result["metric"].clone(), value(result))).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
