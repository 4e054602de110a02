//! Commands about the server itself.

use crate::{reply::Reply, server::Server};

pub(crate) fn asking(server: &mut Server, _: &[&[u8]]) -> Reply {
    if server.member().is_none() {
        return Reply::error("ERR This instance has cluster support disabled");
    }
    server.ask();
    Reply::ok()
}

/// `CLUSTER SLOTS` and `CLUSTER NODES`.
pub(crate) fn cluster(server: &mut Server, arguments: &[&[u8]]) -> Reply {
    let Some(member) = server.member() else {
        return Reply::error("ERR This instance has cluster support disabled");
    };
    match arguments {
        [what] if what.eq_ignore_ascii_case(b"slots") => member.slots(),
        [what] if what.eq_ignore_ascii_case(b"nodes") => member.nodes(),
        _ => Reply::error("ERR unknown subcommand. Try CLUSTER HELP."),
    }
}

pub(crate) fn eval(server: &mut Server, arguments: &[&[u8]]) -> Reply {
    server.run(arguments, true)
}

pub(crate) fn evalsha(server: &mut Server, arguments: &[&[u8]]) -> Reply {
    server.run(arguments, false)
}

pub(crate) fn role(server: &mut Server, _: &[&[u8]]) -> Reply {
    let role = if server.is_replica() { "slave" } else { "master" };
    // A replica says more of its primary.
    Reply::Array(vec![Reply::bulk(role), Reply::Integer(0), Reply::Array(Vec::new())])
}

pub(crate) fn script(server: &mut Server, arguments: &[&[u8]]) -> Reply {
    match arguments {
        [verb, text] if verb.eq_ignore_ascii_case(b"load") => {
            server.load(text).map_or_else(|error| error, Reply::bulk)
        }
        [verb, digests @ ..] if verb.eq_ignore_ascii_case(b"exists") && !digests.is_empty() => {
            let known = digests.iter().map(|digest| Reply::Integer(server.knows(digest).into()));
            Reply::Array(known.collect())
        }
        [verb, ..] if verb.eq_ignore_ascii_case(b"flush") => {
            server.flush_scripts();
            Reply::ok()
        }
        _ => Reply::error("ERR unknown subcommand. Try SCRIPT HELP."),
    }
}
