//! `scripts` lists the digests that servers show.

use limiter_redis::scripts;
use limiter_rig::server::{Cluster, Server};

use crate::{doctor, run};

#[test]
fn the_scripts_that_a_server_has_are_marked() {
    let server = Server::start();
    let (_, text) = scripts::all().find(|(name, _)| *name == "gcra").unwrap();
    server.command(&["SCRIPT", "LOAD", text]).unwrap();
    let printed = doctor(&server, &["scripts"]);
    let lines: Vec<_> = printed.out.lines().collect();
    assert!(lines[0].contains("  gcra ") && lines[0].ends_with("  loaded"), "{printed:?}");
    assert!(lines[1].contains("  window ") && lines[1].ends_with("  not loaded"), "{printed:?}");
    assert_eq!(printed.code, 0);
    for line in lines {
        let exists =
            server.command(&["SCRIPT", "EXISTS", line.split(' ').next().unwrap()]).unwrap();
        assert_eq!(exists.ends_with(":1"), !line.ends_with("  not loaded"), "{line}");
    }
}

#[test]
fn scripts_are_listed_without_a_server() {
    let printed = run(&["scripts"], &[], "");
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.out.lines().all(|line| line.len() > 42 && !line.contains("loaded")));
    let printed = run(&["scripts", "--url", "redis://127.0.0.1:1"], &[], "");
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.out.contains("  gcra\n"), "{printed:?}");
    let message =
        "PROBLEM: redis://127.0.0.1:1 did not reply which scripts it has: not connected to";
    assert!(printed.out.contains(message), "{printed:?}");
}

#[test]
fn the_text_of_a_script_is_printed_as_it_is_sent() {
    let (_, text) = scripts::all().find(|(name, _)| *name == "gcra").unwrap();
    let printed = run(&["scripts", "gcra"], &[], "");
    assert_eq!((printed.code, printed.out), (0, format!("{text}\n")));
    let printed = run(&["scripts", "gcr"], &[], "");
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.err.starts_with("error: invalid script \"gcr\"; use one of "), "{printed:?}");
}

#[test]
fn each_node_of_a_cluster_is_asked() {
    let cluster = Cluster::start();
    cluster.node(2).pause();
    let printed = run(&["scripts", "--url", &cluster.url()], &[], "");
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.out.contains("  loaded on 0 of 2 servers\n"), "{printed:?}");
    assert!(printed.out.contains("PROBLEM: 127.0.0.1:"), "{printed:?}");
    cluster.node(2).resume();
}
