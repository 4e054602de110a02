//! What goes wrong with a server, and what its limiters do meanwhile, with a share and without.
//!
//! In every fault no check hangs, no attempt is charged twice, a share decides without the server or an error is
//! returned, and all is well again after the fault is over.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod proxy;
mod trial;

use std::{net::TcpListener, thread, time::Duration};

use limiter_rig::server::{Sentinels, Server, wait_until};

use proxy::{Mode, Proxy};
use trial::{State, Trial};

/// How often each limiter does without the store before a fault is over: for several probes of a breaker, and until no
/// denial is cached any more.
const LONG: u64 = 100;

#[test]
fn a_server_that_is_paused_for_a_short_time() {
    let server = Server::start();
    let trial = Trial::begin("stopped for a moment", &server.url());
    server.pause();
    trial.lasts(1);
    server.resume();
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn a_server_that_is_paused_until_its_connection_is_given_up() {
    let server = Server::start();
    let trial = Trial::begin("stopped for long", &server.url());
    server.pause();
    trial.lasts_until_disconnected();
    server.resume();
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn a_server_that_is_killed_and_started_again() {
    let mut server = Server::start();
    let trial = Trial::begin("killed, started again", &server.url());
    server.kill();
    trial.lasts(LONG);
    server.restart();
    trial.survived(&server.url(), State::Lost);
}

#[test]
fn a_primary_whose_replica_takes_its_place() {
    let mut set = Sentinels::start();
    let trial = Trial::begin("failover by sentinels", &set.url());
    let new = set.server(1).port();
    set.server_mut(0).kill();
    wait_until("the replica is the primary", || set.primary() == Some(new));
    trial.survived(&set.url(), State::Lost);
}

#[test]
fn a_primary_that_hangs_and_whose_replica_takes_its_place() {
    let set = Sentinels::start();
    let trial = Trial::begin("failover from one that hangs", &set.url());
    let new = set.server(1).port();
    set.server(0).pause();
    wait_until("the replica is the primary", || set.primary() == Some(new));
    trial.survived(&set.url(), State::Lost);
}

#[test]
fn a_server_that_is_a_replica_for_a_while() {
    let server = Server::start();
    let trial = Trial::begin("READONLY", &server.url());
    // Without a primary to take its data from, it keeps its own.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", &nobody.port().to_string()]).unwrap();
    trial.lasts(LONG);
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    trial.survived(&server.url(), State::Kept);
}

/// Has a server take a second to load what it holds: it handles events every two megabytes.
const SLOW_LOADING: [&str; 4] = ["--key-load-delay", "25000", "--rdbcompression", "no"];

fn fill(server: &Server) {
    for number in 0..40 {
        let script = format!("redis.call('SET', 'big{number}', string.rep('x', 2100000))");
        server.command(&["EVAL", &script, "0"]).unwrap();
    }
}

fn is_loading(server: &Server) -> bool {
    server.command(&["INFO", "persistence"]).is_ok_and(|info| !info.contains("\nloading:0"))
}

#[test]
fn a_server_that_loads_its_data() {
    let mut server = Server::start_with(&SLOW_LOADING);
    fill(&server);
    let trial = Trial::begin("LOADING at the start", &server.url());
    server.command(&["SAVE"]).unwrap();
    server.restart();
    assert!(is_loading(&server));
    wait_until("the server has loaded", || !is_loading(&server));
    trial.survived(&server.url(), State::Lost);
}

#[test]
fn a_server_that_loads_the_data_of_another() {
    let primary = Server::start_with(&SLOW_LOADING);
    fill(&primary);
    let server = Server::start_with(&SLOW_LOADING);
    let trial = Trial::begin("LOADING, READONLY", &server.url());
    server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    wait_until("the server loads", || is_loading(&server));
    wait_until("the server has loaded", || !is_loading(&server));
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    trial.survived(&server.url(), State::Lost);
}

#[test]
fn a_server_that_is_full() {
    let server = Server::start();
    let trial = Trial::begin("OOM", &server.url());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    trial.lasts(LONG);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn a_server_that_is_busy_with_another_script() {
    let server = Server::start_with(&["--lua-time-limit", "5"]);
    let trial = Trial::begin("BUSY", &server.url());
    thread::scope(|scope| {
        // Its own reply is an error.
        scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        trial.lasts(LONG);
        wait_until("the script ends", || server.command(&["SCRIPT", "KILL"]).is_ok());
    });
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn a_key_that_holds_something_else() {
    let server = Server::start();
    let trial = Trial::begin("WRONGTYPE", &server.url());
    for key in trial.crowded_keys() {
        server.command(&["RENAME", &key, &format!("{key}:aside")]).unwrap();
        server.command(&["RPUSH", &key, "theirs"]).unwrap();
    }
    trial.lasts(LONG);
    for key in trial.crowded_keys() {
        server.command(&["RENAME", &format!("{key}:aside"), &key]).unwrap();
    }
    let rows = trial.survived(&server.url(), State::Kept);
    // It is no reason to leave the server alone.
    assert!(rows.iter().all(|row| row.short_circuited == 0));
}

#[test]
fn replies_that_are_lost_with_the_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let trial = Trial::begin("cut before the reply", &proxy.url());
    proxy.set(Mode::Cut);
    trial.lasts(LONG);
    proxy.set(Mode::Pass);
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn replies_that_are_lost_now_and_then() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let trial = Trial::begin("cut now and then", &proxy.url());
    for _ in 0..10 {
        proxy.set(Mode::CutOnce);
        wait_until("a connection is cut", || proxy.passes());
    }
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn a_server_that_nothing_reaches() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let trial = Trial::begin("cut off", &proxy.url());
    proxy.set(Mode::Hole);
    trial.lasts_until_disconnected();
    proxy.set(Mode::Pass);
    trial.survived(&server.url(), State::Kept);
}

#[test]
fn replies_that_arrive_late() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let trial = Trial::begin("replies 80 ms late", &proxy.url());
    proxy.set(Mode::Delay(Duration::from_millis(80)));
    trial.lasts(LONG);
    proxy.set(Mode::Pass);
    trial.survived(&server.url(), State::Kept);
}
