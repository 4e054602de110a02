//! Invalid arguments are refused with what to do, and exit codes are as documented.

use std::net::TcpListener;

use limiter_redis::scripts::{CALL_COMMANDS, SCRIPT_COMMANDS};
use limiter_rig::server::{Server, Tls};

use crate::{TempFile, doctor, run};

#[test]
fn invalid_arguments_are_refused_with_what_to_do() {
    let stored = "invalid subject \"limiter:{sa}:api\": it is a stored key, which has a name already; leave out --name";
    let no_file = "can't read limits in README.md: ";
    let no_certificate = "invalid client certificate or key in README.md: it contains no certificate; give PEM files";
    for (arguments, message) in [
        ("--bogus report", "unexpected argument '--bogus' found"),
        ("explian x", "a similar subcommand exists: 'explain'"),
        ("explain", "<KEY|SUBJECT>"),
        ("explain x", "invalid key \"x\": no limiter has such keys; give a key as"),
        ("reset shop:{sa}:api", "its prefix is not \"limiter\"; use --prefix"),
        ("reset a --secret", "--name <NAME>"),
        ("explain limiter:{sa}:api --name api", stored),
        ("reset limiter:{sa}:api --name x --kind bytes", "a stored key"),
        (
            "explain a --name api --kind integer",
            "invalid subject \"a\": it is not an integer of 64 bits",
        ),
        ("explain a --name api --kind address", "invalid subject \"a\": it is not an IP address"),
        (
            "explain 192.0.2.1/24 --name api --kind address",
            "invalid subject \"192.0.2.1/24\": it is not an IPv6 network with 1 to 128 bits",
        ),
        (
            "explain 2001:db8::/129 --name api --kind address",
            "invalid subject \"2001:db8::/129\": it is not an IPv6 network with 1 to 128 bits",
        ),
        (
            "explain a --name api --secret",
            "the subject is a secret, whose key is a keyed digest: give the shared secret by",
        ),
        ("reset a --name api --limits x", "unexpected argument '--limits'"),
        ("top --limits /nowhere", "can't read limits in /nowhere: "),
        ("explain limiter:{sa}:api --limits README.md", no_file),
        ("top --limit 0", "invalid value '0' for '--limit <N>'"),
        ("top --max-seconds 86401", "86401 is not in 0..=86400"),
        ("report --prefix ''", "invalid key prefix \"\": use 1 to 64 bytes"),
        ("top --cert /nowhere", "only one of --cert and --key is given; give both"),
        ("top --cert /nowhere --key /nowhere", "can't read /nowhere: "),
        ("top --cert README.md --key README.md", no_certificate),
        ("top --key-secret-file /nowhere", "can't read the key secret in /nowhere:"),
    ] {
        let arguments: Vec<_> = arguments.split(' ').map(|word| word.trim_matches('\'')).collect();
        let printed = run(&[&["--url", "redis://127.0.0.1:1"], &*arguments].concat(), &[], "");
        printed.fails(2, message);
    }
    let no_server = "no server is given: use --url redis://HOST:6379, or set REDIS_URL";
    run(&["report"], &[], "").fails(2, no_server);
    let invalid = "invalid server address \"***\": it must begin";
    run(&["report", "--url", "nonsense"], &[], "").fails(2, invalid);
}

#[test]
fn each_command_is_in_the_documents() {
    let help = run(&["--help"], &[], "").out;
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(names.len() > 4, "{help}");
    let map = include_str!("../../../../ARCHITECTURE.md");
    let map = map.lines().find(|line| line.starts_with("| **`crates/limiter-doctor`**")).unwrap();
    let readme = include_str!("../../README.md");
    for name in names {
        assert!(map.contains(&format!("`{name}`")), "ARCHITECTURE.md lacks {name}");
        let session = readme.contains(&format!("$ limiter-doctor {name}"));
        let prose = readme.contains(&format!("`limiter-doctor {name}`"));
        assert!(session || prose, "README does not show {name}");
    }
}

#[test]
fn a_password_is_not_printed() {
    for variables in [vec![], vec![("REDIS_URL", "redis://user:hunter2@127.0.0.1:1")]] {
        let printed = run(&["--help"], &variables, "");
        assert_eq!(printed.code, 0);
        assert!(!printed.out.contains("hunter2") && printed.out.contains("Exit codes"));
    }
    let printed = run(&["top", "--url", "redis://user:hunter2@127.0.0.1:1"], &[], "");
    assert!(!printed.err.contains("hunter2"), "{printed:?}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_of_its_own() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("redis://{nobody}");
    let key = "limiter:{sa}:api";
    for command in [&["explain", key][..], &["top"], &["reset", key]] {
        let printed = run(command, &[("REDIS_URL", &url)], "");
        printed.fails(3, "error: not connected to redis://");
    }
    let url = format!("redis-cluster://{nobody}");
    let by_name = ["reset", "alice", "--name", "api"];
    for (command, code) in
        [(&["explain", key][..], 3), (&by_name, 3), (&["top"], 3), (&["report"], 1)]
    {
        let printed = run(command, &[("REDIS_URL", &url)], "");
        assert_eq!(printed.code, code, "{printed:?}");
    }
}

#[test]
fn a_command_that_is_not_permitted_is_named() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "default", "-eval"]).unwrap();
    let printed = doctor(&server, &["top"]);
    assert_eq!(printed.code, 3, "{printed:?}");
    assert!(printed.err.contains("NOPERM") && printed.err.contains("eval"), "{printed:?}");
}

/// Writes a key of each type.
fn plant(server: &Server) {
    for (command, key, words) in [
        ("HSET", "limiter:{sa}:api", &["gcra.60s", "1700000000000000"][..]),
        ("RPUSH", "limiter:{sa}:api:sub-windows.70s.10s", &["1700000000000000 1 1"]),
        ("ZADD", "limiter:{sa}:api:inflight", &["1700000000000000", "permit"]),
    ] {
        server.command(&[&[command, key], words].concat()).unwrap();
        server.command(&["PEXPIRE", key, "60000"]).unwrap();
    }
}

#[test]
fn the_permissions_in_the_readme_suffice() {
    let server = Server::start();
    let user =
        ["ACL", "SETUSER", "web", "on", ">secret", "~limiter:*", "+hello", "+client", "+auth"];
    let readme = include_str!("../../README.md");
    let permissions = readme.split('`').find(|text| text.starts_with("+eval ")).unwrap();
    let readers: Vec<&str> = user.into_iter().chain(permissions.split_whitespace()).collect();
    server.command(&readers).unwrap();
    plant(&server);
    let url = server.url().replace("redis://", "redis://web:secret@");
    let key = "limiter:{sa}:api";
    for (command, code) in [(&["explain", key][..], 0), (&["top"], 0), (&["reset", key], 3)] {
        let printed = run(&[&["--url", &url], command].concat(), &[], "");
        assert_eq!(printed.code, code, "{printed:?}");
    }
    // As a limiter's user.
    let writes = CALL_COMMANDS.iter().chain(SCRIPT_COMMANDS);
    let writes: Vec<String> =
        writes.map(|command| format!("+{}", command.to_lowercase())).collect();
    let user = ["ACL", "SETUSER", "web"].into_iter().chain(writes.iter().map(String::as_str));
    server.command(&user.collect::<Vec<_>>()).unwrap();
    let printed = run(&["reset", key, "--url", &url], &[], "");
    assert!(printed.out.starts_with("Deleted"), "{printed:?}");
    let printed = run(&["report", "--url", &url], &[], "");
    let refused = printed.out.contains("NOPERM") || printed.out.contains("not permitted");
    assert!(!refused, "{printed:?}");
}

#[test]
fn the_operators_user_in_the_guide_may_run_all_commands() {
    let server = Server::start();
    let guide = include_str!("../../../limiter-redis/docs/guide/production.md");
    let user = guide.lines().find_map(|line| line.strip_prefix("user doctor ")).unwrap();
    let user = ["ACL", "SETUSER", "doctor"].into_iter().chain(user.split_whitespace());
    server.command(&user.collect::<Vec<_>>()).unwrap();
    plant(&server);
    let url = server.url().replace("redis://", "redis://doctor:PASSWORD@");
    for command in [
        &["report"][..],
        &["explain", "a", "--name", "api"],
        &["top"],
        &["reset", "a", "--name", "api"],
    ] {
        let printed = run(&[&["--url", &url], command].concat(), &[], "");
        assert!(printed.code < 2, "{printed:?}");
        let refused = ["NOPERM", "not permitted", "may not"];
        assert!(!refused.iter().any(|words| printed.out.contains(words)), "{printed:?}");
    }
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
}

#[test]
fn a_private_certificate_is_trusted_by_ssl_cert_file() {
    let tls = Tls::new();
    let server = tls.start();
    let file = TempFile::new("root", &tls.issuer().root());
    let url = server.url();
    let top = |variables: &[(&str, &str)]| run(&["top", "--url", &url], variables, "");
    let printed = top(&[("SSL_CERT_FILE", &file.0)]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let printed = top(&[]);
    assert_ne!(printed.code, 0, "{printed:?}");
}

#[test]
fn a_server_that_demands_a_certificate_is_shown_one() {
    let tls = Tls::new();
    let server = tls.start_with(&["--tls-auth-clients", "yes"]);
    let (certificate, key) = tls.issuer().sign();
    let other_key = tls.issuer().sign().1;
    let files = [
        TempFile::new("ca", &tls.issuer().root()),
        TempFile::new("cert", &certificate),
        TempFile::new("key", &key),
        TempFile::new("other-key", &other_key),
    ];
    let [ca, cert, key, other_key] = files.each_ref().map(|file| file.0.as_str());
    let url = server.url();
    let top = |arguments: &[&str]| {
        run(&[&["top", "--url", &url], arguments].concat(), &[("SSL_CERT_FILE", ca)], "")
    };
    let printed = top(&["--cert", cert, "--key", key]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let printed = top(&[]);
    assert_eq!(printed.code, 3, "{printed:?}");
    assert!(printed.err.contains("CertificateRequired"), "{printed:?}");
    let printed = top(&["--cert", cert, "--key", other_key]);
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.err.contains("invalid client certificate or key in "), "{printed:?}");
    let plain = url.replace("rediss://", "redis://");
    let printed = run(&["top", "--url", &plain, "--cert", cert, "--key", key], &[], "");
    assert!(printed.code == 2 && printed.err.contains("use rediss://"), "{printed:?}");
}
