//! Lua as servers run it: what scripts see of replies and errors, and what becomes of what they return.

use limiter_double::{Reply, Version};

use crate::pair::Pair;

/// Scripts, with the key `h`, which has a hash, and the argument `abc`.
const SCRIPTS: &[&str] = &[
    // Values and replies.
    "return nil",
    "return false",
    "return true",
    "return 3.99",
    "return -3.99",
    "return 1e30",
    "return -1e30",
    "return 0/0",
    "return 2^53 + 1",
    "return 2^63",
    "return 'a\\0b'",
    "return function() end",
    "return {}",
    "return { 1, 2, nil, 4 }",
    "return { 1, false, true, 'x', 3.99, {}, { 1, { 2 } }, { err = 'MY z' }, { ok = 'fine' } }",
    "return { err = 'MY error' }",
    "return { err = 'ERR a\\r\\nb\\n' }",
    "return { err = 5 }",
    "return { ok = 'a\\nb' }",
    "return { ok = 5 }",
    // What commands reply to scripts.
    "return redis.call('PING')",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('SET', 'n', '1').ok",
    "return redis.call('hset', KEYS[1], 'b', '2')",
    "return { type(redis.call('GET', 'none')), type(redis.call('DEL', 'none')), type(redis.call('TIME')) }",
    "return { type(redis.call('HMGET', 'none', 'a')[1]), redis.call('HGETALL', KEYS[1]) }",
    "return #KEYS + 10 * #ARGV",
    "KEYS[1] = 'other' return KEYS[1]",
    // Errors of commands.
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1]).err",
    "return { redis.pcall('GET', KEYS[1]), 1 }",
    "\n\nlocal a = 1\nreturn redis.call('GET', KEYS[1])",
    "\nlocal function f()\n  local x = redis.call('GET', KEYS[1])\n  return x\nend\nlocal y = f()\nreturn y",
    "local function f(...)\n  return redis.call(...)\nend\n\nlocal x = f('GET', KEYS[1])",
    "\nreturn redis.call(\n'GET',\nKEYS[1])",
    "local f = redis.call\nreturn f('GET', KEYS[1])",
    "local ok, e = pcall(redis.call, 'GET', KEYS[1]) return { ok, type(e), e }",
    "local ok, e = pcall(function() return redis.call('GET', KEYS[1]) end) return { ok, type(e), e }",
    "local ok, e = pcall(function() return redis.call('GET', KEYS[1]) end)\nerror(e)",
    "return redis.call('LSET', 'none', '0', 'a')",
    // Of commands that may not be called.
    "return redis.call('GET')",
    "return redis.pcall('GET')",
    "return redis.call('NONE')",
    "return redis.pcall('NONE').err",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('GET', {})",
    "return redis.call('GET', true)",
    "return redis.pcall('GET', nil)",
    "return redis.call('EVAL', 'return 1', '0')",
    "return redis.pcall('EVALSHA', 'a', '0')",
    "return redis.pcall('SCRIPT', 'FLUSH')",
    "return redis.pcall('ROLE')",
    "local ok, e = pcall(redis.call, 'NONE') return { type(e), e }",
    "\nlocal ok, e = pcall(function()\n return redis.call('NONE') end) return { type(e), e }",
    // Errors of scripts.
    "\nerror('boom')",
    "\nerror('boom', 0)",
    "error(12)",
    "local x = nil\nreturn x + 1",
    "return nil .. 'x'",
    "local a = {}\nreturn a.b.c",
    "return ARGV[1] + 0",
    "local ok, e = pcall(function() error('boom') end) return { ok, e }",
    "local ok, e = pcall(function() return nil + 1 end) return { ok, e }",
    "\n\nx = = 1",
    // Numbers.
    "return tonumber('0x10')",
    "return '10' + 1",
    "return tostring(1e15) .. ' ' .. tostring(1e14) .. ' ' .. 0.1 .. ' ' .. 123456789012345678",
    "return string.format('%d %.0f %d', 3.7, 2^53, 2^53)",
    "local all = {}
    for n, number in ipairs({ 0.1, 1e17, 1e16, 0, 3, -3.5, 1e-5, 1.5e-7, 12345.678, 2^53, 2^53 + 2, 1e19, 1e100,
      123456789012345680000, 1/0, -1/0, 1e15 + 0.5, 1700000000123456, 1/3, 0.00012, 1e-7, 5e-324 }) do
      redis.call('SET', 'n', number)
      all[n] = redis.call('GET', 'n')
    end
    return all",
    "redis.call('ZADD', 'z', 0.1, 'a', 1e17, 'b', 2, 'c') return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
    "return redis.call('LRANGE', 'none', 0, 1.5)",
];

/// Those about globals, which Redis 6.2 checks by Lua and not everywhere: another error, or none.
const GLOBALS: &[&str] = &[
    "return none",
    "\nnone = 1",
    "redis = 1",
    "KEYS = {}",
    "local ok, e = pcall(function() return none end) return { ok, e }",
    "return syntax error",
    "error({ err = 'MY error' })",
    "\nerror(redis.pcall('GET', KEYS[1]))",
    "local ok, e = pcall(error, { err = 'MY error' }) return { ok, type(e), e }",
];

#[test]
fn scripts_have_the_same_replies() {
    let mut pair = Pair::start();
    pair.same_text("HSET h a 1");
    let globals = if pair.version == Version::Redis6_2 { &[] } else { GLOBALS };
    for script in SCRIPTS.iter().chain(globals) {
        pair.script(script, &["h"], &["abc"]);
    }
}

#[test]
fn scripts_are_loaded_and_flushed() {
    let mut pair = Pair::start();
    let unknown = "f".repeat(40);
    pair.same(&["EVALSHA", &unknown, "0"]);
    pair.same(&["EVALSHA", "short", "0"]);
    for count in ["abc", "-1", "1", "01", "99999999999999999999"] {
        pair.same(&["EVAL", "return 1", count]);
        pair.same(&["EVALSHA", &unknown, count]);
    }
    let Reply::Bulk(digest) = pair.same(&["SCRIPT", "LOAD", "return { KEYS[1], ARGV[1] }"]) else {
        panic!("no digest")
    };
    let digest = String::from_utf8(digest).unwrap();
    let upper = digest.to_uppercase();
    for digest in [&digest, &upper] {
        pair.same(&["EVALSHA", digest, "1", "a", "b"]);
        pair.same(&["evalsha", digest, "0", "b"]);
    }
    pair.same(&["SCRIPT", "EXISTS", &digest, &upper, &unknown, "short"]);
    pair.same(&["SCRIPT", "LOAD", "x = = 1"]);
    pair.script("return 5", &[], &[]);
    pair.same(&["SCRIPT", "EXISTS", "4ca238f611c9d0ae4e9a75a5dbac22aedc1e44b3"]);
    for flush in [&["SCRIPT", "FLUSH"][..], &["script", "flush", "sync"]] {
        pair.same(&["SCRIPT", "LOAD", "return { KEYS[1], ARGV[1] }"]);
        pair.same(flush);
        pair.same(&["EVALSHA", &digest, "1", "a", "b"]);
        pair.same(&["SCRIPT", "EXISTS", &digest]);
    }
}

#[test]
fn commands_that_are_wrong_have_the_same_errors() {
    let mut pair = Pair::start();
    for command in [
        "NONE", "none a b", "GET", "get a b", "SET a", "HSET h a", "EVAL x", "SCRIPT", "CLUSTER",
        "ROLE x",
    ] {
        pair.same_text(command);
    }
    for command in
        ["ASKING", "CLUSTER SLOTS", "CLUSTER NODES", "PING", "PING a", "PING a b", "ROLE"]
    {
        pair.same_text(command);
    }
}
