//! What an operator is told of a server.

use limiter_redis::{Finding, Report, Severity, connect, doctor, doctor_under};
use limiter_test::server::Server;

async fn examined(server: &Server) -> Report {
    let report = doctor(&connect(&server.url()).await.unwrap()).await;
    println!("{report}");
    report
}

/// Returns how much the finding matters that says `text`, and what it advises.
fn found(report: &Report, text: &str) -> (Severity, String) {
    let finding = report.findings().iter().find(|finding| finding.text().contains(text));
    let finding = finding.unwrap_or_else(|| panic!("nothing says {text:?}: {report}"));
    (finding.severity(), finding.advice().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_server_in_order_is_healthy() {
    let server = Server::start_with(&["--appendonly", "yes"]);
    let report = examined(&server).await;
    let timed = |finding: &&Finding| finding.text().contains("takes");
    // A machine under load may answer late.
    let mut others = report.findings().iter().filter(|finding| !timed(finding));
    assert!(others.all(|finding| finding.severity() < Severity::Problem), "{report}");
    for text in ["no memory limit", "append-only file", "its clock is", "all keys under"] {
        assert_eq!(found(&report, text).0, Severity::Fine);
    }
    assert!(report.findings().iter().all(|finding| finding.server() != ""));
    // Two kinds of values.
    assert_eq!(report.findings().iter().filter(timed).count(), 2);
}

#[tokio::test]
async fn eviction_is_named_with_what_to_change() {
    let server = Server::start_with(&["--maxmemory", "500mb", "--maxmemory-policy", "allkeys-lru"]);
    let (severity, advice) = found(&examined(&server).await, "evicts keys");
    assert_eq!(severity, Severity::Advice);
    assert!(advice.contains("maxmemory-policy noeviction"), "{advice}");
}

#[tokio::test]
async fn a_full_server_is_a_problem() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let report = doctor(&client).await;
    assert!(!report.is_healthy(), "{report}");
    assert_eq!(found(&report, "OOM").0, Severity::Problem);
}

#[tokio::test]
async fn keys_that_never_expire_are_found_under_the_prefix_alone() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    for key in ["limiter:api:theirs", "other*:api:x", "unrelated"] {
        server.command(&["SET", key, "1"]).unwrap();
    }
    let report = doctor(&client).await;
    assert_eq!(found(&report, "such as \"limiter:api:theirs\"").0, Severity::Problem);
    let (severity, _) = found(&doctor_under(&client, "other*").await, "such as \"other*:api:x\"");
    assert_eq!(severity, Severity::Problem);
    let report = doctor_under(&client, "*").await;
    assert_eq!(found(&report, "all keys under \"*\"").0, Severity::Fine);
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_told_what_to_allow() {
    let server = Server::start();
    let user = ["ACL", "SETUSER", "web", "on", ">secret", "~*", "&*", "+info", "+time", "+hello"];
    let user = [&user[..], &["+auth", "+ping", "+client", "+select", "+config"]].concat();
    server.command(&user).unwrap();
    let url = server.url().replace("redis://", "redis://web:secret@");
    let client = connect(&url).await.unwrap();
    // None, and then all but those that read and write.
    for more in ["+time", "+eval|+evalsha"] {
        let user = ["ACL", "SETUSER", "web"].into_iter().chain(more.split('|'));
        server.command(&user.collect::<Vec<_>>()).unwrap();
        let report = doctor(&client).await;
        let decisions = report.findings().iter().find(|finding| finding.server() == "decisions");
        let finding = decisions.unwrap_or_else(|| panic!("{report}"));
        assert_eq!(finding.severity(), Severity::Problem, "{report}");
        assert!(finding.advice().unwrap().contains("+evalsha"), "{report}");
        assert!(!report.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_finding() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = doctor(&connect(&format!("redis://{nobody}")).await.unwrap()).await;
    assert!(!report.is_healthy());
    assert_eq!(found(&report, "can't be asked").0, Severity::Problem);
}
