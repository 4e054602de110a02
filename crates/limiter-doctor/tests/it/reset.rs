//! `reset` deletes one subject's state.

use limiter_core::{Cost, Key};
use limiter_test::server::Server;
use serde_json::json;

use crate::{SECRET, doctor, limiter, run, take};

#[tokio::test]
async fn a_subject_is_fresh_after_a_reset_and_no_other_is() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d").await;
    for subject in ["alice", "bob"] {
        take(&limiter, subject, 3).await;
    }
    let printed = doctor(&server, &["reset", "alice", "--name", "api"]);
    let text = "Deleted limiter:{salice}:api:gcra: the subject is fresh. A process that has cached a \
                denial refuses it for at most one more second.\n";
    assert_eq!((printed.code, printed.out.as_str()), (0, text), "{printed:?}");
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 3);
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 0);

    let printed = doctor(&server, &["reset", "limiter:{salice}:api:gcra"]);
    let text = "Nothing is stored at limiter:{salice}:api:gcra: the subject was fresh.\n";
    assert_eq!((printed.code, printed.out.as_str()), (0, text), "{printed:?}");

    for deleted in [true, false] {
        let printed = doctor(&server, &["--json", "reset", "limiter:{sbob}:api:gcra"]);
        let json = json!({ "key": "limiter:{sbob}:api:gcra", "deleted": deleted });
        assert_eq!((printed.code, printed.json()), (0, json));
    }
}

#[tokio::test]
async fn each_kind_of_subject_is_found() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "3/d by sliding-log").await;
    let address: std::net::IpAddr = "2001:db8::1".parse().unwrap();
    let file = std::env::temp_dir().join(format!("limiter-doctor-{}", std::process::id()));
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let file = file.to_str().unwrap();
    let keys: [(Key<'_>, &[&str], &str); 6] = [
        (Key::from("x"), &["x"], ""),
        (Key::from(b"x"), &["x", "--kind", "bytes"], ""),
        (Key::from(-7), &["--kind", "integer", "--", "-7"], ""),
        (Key::from(address), &["2001:db8::1", "--kind", "address"], ""),
        (Key::secret("sk-1"), &["-", "--secret", "--key-secret-file", file], "sk-1\n"),
        (Key::from("{long}"), &["{long}"], ""),
    ];
    for (key, arguments, stdin) in keys {
        let _ = limiter.check_n(&key, Cost::ONE).await.unwrap();
        let url = server.url();
        let command = ["--url", &url, "reset", "--name", "api", "--quota", "1/s by sliding-log"];
        let printed = run(&[&command, arguments].concat(), &[], stdin);
        assert!(printed.out.starts_with("Deleted limiter:{"), "{key:?}: {printed:?}");
        assert!(!printed.out.contains("sk-1"));
        assert_eq!(limiter.peek(&key).await.unwrap().remaining(), 3, "{key:?}");
    }
    std::fs::remove_file(file).unwrap();
}
