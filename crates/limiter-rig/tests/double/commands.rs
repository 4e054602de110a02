//! Each command of the table: what `COMMAND INFO` says of it, and random calls.

use std::iter;

use limiter_double::{Command, Reply, Version, commands};
use limiter_rig::server::wait_until;

use crate::{
    pair::{LATE, Pair, now, number},
    random::Random,
    wire::{Words, words},
};

/// The flags that decide whether a command runs.
const FLAGS: [&str; 5] = ["write", "denyoom", "noscript", "loading", "stale"];

#[test]
fn the_table_says_what_command_info_says() {
    let mut pair = Pair::start();
    for command in commands() {
        let Reply::Array(info) = pair.connection.call(&["COMMAND", "INFO", command.name]) else {
            panic!("no information about {}", command.name)
        };
        let Reply::Array(info) = &info[0] else { panic!("no command {}", command.name) };
        let Reply::Array(flags) = &info[2] else { panic!("no flags") };
        let real = flags.iter().filter_map(|flag| match flag {
            Reply::Status(flag) => FLAGS.into_iter().find(|known| known == flag),
            other => panic!("{other:?} is not a flag"),
        });
        let mut real: Vec<_> = real.collect();
        let mut own = command.flags.to_vec();
        let mut arity = number(&info[1]);
        match (command.name, pair.version) {
            // Since 7.0 it has options, which no script uses.
            ("pexpire", version) if version > Version::Redis6_2 => arity = arity.abs(),
            // Since 7.0 each subcommand has flags of its own.
            ("cluster" | "script", version) if version > Version::Redis6_2 => real.clone_from(&own),
            // The double has the only difference that replies to these show: see `MASTERDOWN`.
            ("eval" | "evalsha", Version::Redis6_2) => real.push("stale"),
            // Nothing depends on a `PING` of a replica without its primary.
            ("ping", Version::Redis6_2) => real.retain(|flag| *flag != "stale"),
            _ => {}
        }
        real.sort_unstable();
        own.sort_unstable();
        let keys = (number(&info[3]), number(&info[4]));
        let expected =
            (i64::from(command.arity), own, (command.keys.0.into(), command.keys.1.into()));
        assert_eq!((arity, real, keys), expected, "{:?}: {}", pair.version, command.name);
    }
}

/// Commands of the server, and the time, which have tests of their own.
const APART: [&str; 7] = ["asking", "cluster", "eval", "evalsha", "role", "script", "time"];

/// How many calls of each command are made: half of them directly, half of them in scripts.
const CALLS: usize = 2_000;

#[test]
fn random_calls_have_the_same_replies() {
    let mut pair = Pair::start();
    let mut random = Random(56);
    let is_compared = |it: &&Command| !APART.contains(&it.name);
    let all: Vec<_> = commands().iter().filter(is_compared).collect();
    let batch = 200;
    for round in 0..CALLS * all.len() / batch {
        let calls = (0..batch).map(|_| {
            // Many that create keys, since many others delete them.
            let creating = ["hset", "rpush", "zadd", "set"];
            let creates = random.once_in(4);
            let name = if creates { random.choose(&creating) } else { random.choose(&all).name };
            call(name, &mut random)
        });
        let calls: Vec<_> = calls.collect();
        if round % 2 == 0 {
            pair.same_all(&calls);
        } else {
            in_one_script(&mut pair, &calls);
        }
        pair.same_all(&reads());
        let keys = number(&pair.connection.call(&["DBSIZE"]));
        assert_eq!(i64::try_from(pair.double.keys().count()).unwrap(), keys);
    }
    // Calls that all fail would compare little.
    for command in all {
        let (succeeded, failed) = pair.outcomes[command.name];
        assert!(succeeded + failed > CALLS / 2, "{}: {succeeded} and {failed}", command.name);
        assert!(
            command.name == "flushall" || succeeded > failed / 4,
            "{}: {succeeded}",
            command.name
        );
    }
    eprintln!("{:?}: {} random calls", pair.version, pair.calls);
}

/// Makes all calls in one script on both.
fn in_one_script(pair: &mut Pair, calls: &[Words]) {
    const SCRIPT: &str = "
        local replies, place = {}, 1
        while ARGV[place] do
          local last = place + ARGV[place]
          replies[#replies + 1] = redis.pcall(unpack(ARGV, place + 1, last))
          place = last + 1
        end
        return replies";
    let mut command: Words = [&b"EVAL"[..], SCRIPT.as_bytes(), b"0"].map(<[u8]>::to_vec).to_vec();
    for call in calls {
        command.push(call.len().to_string().into_bytes());
        command.extend_from_slice(call);
    }
    let now = now();
    let Reply::Array(real) = pair.connection.call(&command) else { panic!("no replies") };
    let Reply::Array(double) = pair.double.execute(&command, now) else { panic!("no replies") };
    assert_eq!(double.len(), real.len());
    for (call, (double, real)) in calls.iter().zip(double.iter().zip(&real)) {
        pair.check(call, double, real);
    }
}

/// Keys of each type, by their first letter.
const KEYS: [&str; 12] = ["h1", "h2", "h3", "l1", "l2", "l3", "z1", "z2", "z3", "s1", "s2", "s3"];

/// Returns commands that read all keys.
fn reads() -> Vec<Words> {
    let of_key = |key: &str| {
        let read = match &key[..1] {
            "h" => "HGETALL {}",
            "l" => "LRANGE {} 0 -1",
            "z" => "ZRANGE {} 0 -1 WITHSCORES",
            _ => "GET {}",
        };
        ["TYPE {}", "PTTL {}", read].map(|text| words(&text.replace("{}", key)))
    };
    KEYS.iter().flat_map(|key| of_key(key)).collect()
}

/// Arguments, and those of numbers, between bars. The first third of numbers is valid.
const TEXTS: &str = "a|b|c||1|2|-1|hello world|\0\r\n|é|1700000000000000 5|x y, z";
const INTEGERS: &str = concat!(
    "0|1|2|3|5|-1|-2|-3|-5|10|-10|100|-100|2147483648|9223372036854775807|",
    "-9223372036854775807|-9223372036854775808|9223372036854775808|-9223372036854775809|",
    "99999999999999999999999|+1|01|-0|1.5|| 1|1 |abc|0x10|1e3",
);
const SCORES: &str = concat!(
    "0|1|2|3|-1|-2|1.5|-1.5|0.1|-0.1|1e3|1E3|+1|.5|5.|1e17|-1e17|123456789012345678|",
    "1700000000123456|1700000000123456.5|1e-5|3.3e-7|0.00012|123456789.123|1e100|",
    "1.7976931348623157e308|5e-324|inf|-inf|+inf|Infinity|INF|1e400|-1e400|nan|NaN||abc|1x|",
    "1e|--1|1 |1_0",
);

/// Returns a random call of a command.
fn call(name: &str, random: &mut Random) -> Words {
    let mut call = vec![name.to_owned()];
    let key = |random: &mut Random| {
        let first = match name.as_bytes()[0] {
            b'h' => "h",
            b'l' | b'r' => "l",
            b'z' => "z",
            b'g' | b's' => "s",
            _ => "",
        };
        let own: Vec<_> = KEYS.into_iter().filter(|key| key.starts_with(first)).collect();
        let all = if random.once_in(8) { &KEYS[..] } else { &own };
        (*random.choose(all)).to_owned()
    };
    let one_of = |random: &mut Random, all: &str| {
        let all: Vec<_> = all.split('|').collect();
        // Often one of the first, so that most calls succeed.
        let most = if random.once_in(3) { all.len() } else { all.len() / 3 };
        random.choose(&all[..most]).to_string()
    };
    let text =
        |random: &mut Random| random.choose(&TEXTS.split('|').collect::<Vec<_>>()).to_string();
    let integer = |random: &mut Random| one_of(random, INTEGERS);
    let score = |random: &mut Random| one_of(random, SCORES);
    let bound =
        |random: &mut Random| ["", "", "("][random.index(3)].to_owned() + &one_of(random, SCORES);
    let several = 1 + random.below(3);
    match name {
        "ping" => call.extend((0..random.below(3)).map(|_| text(random))),
        // It would leave the other commands few keys.
        "flushall" => call.extend((0..u64::from(!random.once_in(20))).map(|_| text(random))),
        _ => call.push(key(random)),
    }
    match name {
        "del" | "unlink" | "exists" => call.extend((1..several).map(|_| key(random))),
        "hdel" | "hmget" | "rpush" | "zmscore" | "zrem" => {
            call.extend((0..several).map(|_| text(random)));
        }
        "hget" | "zscore" => call.push(text(random)),
        "hset" => call.extend((0..2 * several).map(|_| text(random))),
        "lindex" => call.push(integer(random)),
        "lrange" | "ltrim" | "zrange" => call.extend([integer(random), integer(random)]),
        // Some servers cut numbers beyond 32 bits here, and others refuse some.
        "lrem" | "lset" => {
            let place = integer(random);
            let is_far = place.parse().is_ok_and(|it: i128| i32::try_from(it).is_err());
            call.extend([if is_far { "0".to_owned() } else { place }, text(random)]);
        }
        "pexpire" => call.push(life(random)),
        "set" => {
            call.push(text(random));
            if random.once_in(2) {
                call.extend(["px".to_owned(), life(random)]);
            }
        }
        "zadd" => call.extend((0..several).flat_map(|_| [score(random), text(random)])),
        "zcount" | "zremrangebyscore" => call.extend([bound(random), bound(random)]),
        _ => {}
    }
    if name == "zrange" && random.once_in(2) {
        call.push("WithScores".to_owned());
    }
    if random.once_in(30) && call.len() > 1 {
        call.pop();
    } else if random.once_in(30) && name != "pexpire" {
        // It has options in some versions.
        call.push(text(random));
    }
    call.into_iter().map(String::into_bytes).collect()
}

/// Returns a lifetime in milliseconds: none that could end while the test runs.
fn life(random: &mut Random) -> String {
    match random.below(4) {
        0 => {
            let all = INTEGERS.split('|').filter(|it| !matches!(it.parse(), Ok(1_i64..=LATE)));
            random.choose(&all.collect::<Vec<_>>()).to_string()
        }
        _ => ((1 + i64::try_from(random.below(5)).unwrap()) * 2 * LATE).to_string(),
    }
}

#[test]
fn keys_expire() {
    let mut pair = Pair::start();
    pair.same_text("SET s v PX 1");
    for command in ["HSET h a 1", "RPUSH l a", "ZADD z 1 a", "SET t v"] {
        pair.same_text(command);
        pair.same_text(&format!("PEXPIRE {} 1", command.split(' ').nth(1).unwrap()));
    }
    let exist = ["EXISTS", "s", "h", "l", "z", "t"];
    wait_until("the keys expire", || number(&pair.connection.call(&exist)) == 0);
    for command in [
        "EXISTS s h l z t",
        "GET h",
        "HGETALL s",
        "PTTL l",
        "TYPE z",
        "PERSIST t",
        "DEL s",
        "RPUSH s a",
    ] {
        pair.same_text(command);
    }
    assert_eq!(pair.double.keys().count(), 1);
}

/// A key is there in its last millisecond.
#[test]
fn keys_last_until_the_end_of_their_last_millisecond() {
    const LAST: &str = "return { redis.call('PTTL', KEYS[1]), redis.call('EXISTS', KEYS[1]) }";
    let [there, gone] = [[0, 1], [-2, 0]].map(|it| Reply::Array(it.map(Reply::Integer).to_vec()));
    let mut pair = Pair::start();
    let command = ["EVAL", LAST, "1", "key"];
    let is_seen = (0..1_000).any(|_| {
        pair.connection.call(&["SET", "key", "v", "PX", "2"]);
        let replies = iter::repeat_with(|| pair.connection.call(&command));
        replies.take_while(|reply| *reply != gone).any(|reply| reply == there)
    });
    assert!(is_seen, "no real key is there in its last millisecond");

    let at = 1_700_000_000_000_000;
    pair.double.execute(&["SET", "key", "v", "PX", "2"], at + 999);
    assert_eq!(pair.double.execute(&command, at + 2_999), there);
    assert_eq!(pair.double.execute(&command, at + 3_000), gone);
}

/// A key whose last millisecond passes while a script runs is there until it ends.
#[test]
fn time_does_not_pass_for_the_keys_of_a_script() {
    let mut pair = Pair::start();
    let script = "
        redis.call('SET', KEYS[1], 'v', 'PX', 2)
        for n = 1, 2000000 do end
        return { redis.call('GET', KEYS[1]), redis.call('PEXPIRE', KEYS[1], 1) }";
    pair.script(script, &["key"], &[]);
    let script = "
        local time = redis.call('TIME')
        return { #time, type(time[1]), #time[1], time[2] + 0 < 1000000, tostring(time[2] + 0) == time[2] }";
    pair.script(script, &[], &[]);
}
