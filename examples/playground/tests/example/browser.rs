//! A headless Chromium that a test drives.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio, id},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// How long a page may take to show something, on a machine that is busy with other tests.
const WITHIN: Duration = Duration::from_secs(60);

/// One page of a browser. It speaks Chromium's debugging protocol over pipes, and is killed on drop.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
    profile: PathBuf,
    session: Option<String>,
    calls: u64,
}

impl Browser {
    /// Opens `url`.
    pub(crate) fn open(url: &str) -> Self {
        let name = format!("chromium-{}-{:?}", id(), thread::current().id());
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut folder = OsString::from("--user-data-dir=");
        folder.push(&profile);
        // The browser reads commands from the descriptor 3 and writes replies to 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(binary())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--no-proxy-server"])
            .args(["--remote-debugging-pipe", "--window-size=1280,1000"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let replies = BufReader::new(process.stdout.take().unwrap());
        let mut browser = Self { process, commands, replies, profile, session: None, calls: 0 };
        let target = browser.call("Target.createTarget", json!({ "url": url }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        browser
    }

    /// Calls a method of the protocol, and returns its result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut command = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut reply = Vec::new();
            self.replies.read_until(0, &mut reply).unwrap();
            assert!(reply.pop().is_some(), "the browser has ended: {method}");
            let reply: Value = serde_json::from_slice(&reply).unwrap();
            // Others are events.
            if reply["id"] == self.calls {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].clone();
            }
        }
    }

    /// Evaluates an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Returns the text of an element, by its id.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let text = self.eval(&format!("document.getElementById({id:?})?.textContent ?? ''"));
        text.as_str().unwrap().trim().to_owned()
    }

    /// Returns the number that an element shows.
    pub(crate) fn number(&mut self, id: &str) -> u64 {
        self.text(id).replace(',', "").parse().unwrap()
    }

    /// Writes `value` into a field, as a user would.
    pub(crate) fn fill(&mut self, id: &str, value: &str) {
        self.eval(&format!(
            "(() => {{ const field = document.getElementById({id:?}); field.value = {value:?}; \
             field.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
        ));
    }

    pub(crate) fn click(&mut self, id: &str) {
        self.eval(&format!("document.getElementById({id:?}).click()"));
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait_until(&mut self, expression: &str) {
        let deadline = Instant::now() + WITHIN;
        while self.eval(&format!("!!({expression})")) != true {
            let page = self.eval("document.body?.innerText ?? ''");
            assert!(Instant::now() < deadline, "not true: {expression}; the page shows\n{page}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes a picture of the whole page to a file in the target folder.
    pub(crate) fn screenshot(&mut self, name: &str, width: u32, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        let size = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        // The page has drawn its charts for the new size.
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
        let options = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", options);
        let picture = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, picture).unwrap();
        println!("wrote {}", path.display());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The browser's own children end after it, and write to the folder until then.
        for _ in 0..100 {
            if fs::remove_dir_all(&self.profile).is_ok() || !self.profile.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the browser that `LIMITER_CHROMIUM` names, or else the one that is installed. Without one
/// the test fails, it is not skipped.
fn binary() -> OsString {
    if let Some(named) = env::var_os("LIMITER_CHROMIUM") {
        return named;
    }
    let names = ["chromium", "google-chrome"];
    let found = names.iter().find_map(|name| limiter_rig::server::on_path(name.as_ref()));
    found.map(Into::into).unwrap_or_else(|| {
        panic!(
            "no Chromium to test with: run `cargo xtask test`, which fetches one, or install one, \
             or set LIMITER_CHROMIUM to the path of a binary"
        )
    })
}
