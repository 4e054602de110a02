//! The scripts: what is sent, and what comes back.
//!
//! A policy of one limit has a flat script for checks, reservations and peeks. Refunds, and policies
//! of several limits, take one general way: functions an algorithm, called by an operation. A script
//! is a concatenation of whole files, so a server holds as many scripts as there are algorithms and
//! operations; quotas are arguments.

mod gcra;
mod limit;
mod plan;
mod reply;

use gcra::Gcra;
pub(crate) use limit::Single;
use limit::{Files, Form};
pub(crate) use plan::{Charged, Plan, Taken};

use fred::bytes::Bytes;

/// Sets `now` from the server's clock.
pub(crate) const PRELUDE: &str = include_str!("scripts/prelude.lua");

const SCALED: &str = include_str!("scripts/scaled.lua");
const MANY: &str = include_str!("scripts/many.lua");
const RESET: &str = include_str!("scripts/reset.lua");

const FAMILIES: &str = include_str!("scripts/several/families.lua");
const CHECK: &str = include_str!("scripts/several/check.lua");
const REFUND: &str = include_str!("scripts/several/refund.lua");

/// A script, as it is called and as it is sent. A clone shares its texts.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) digest: Bytes,
    pub(crate) source: Bytes,
}

impl Script {
    pub(crate) fn new(source: String) -> Self {
        let digest = sha1_smol::Sha1::from(&source).digest().to_string();
        Self { digest: digest.into(), source: source.into() }
    }
}

/// The scripts of a policy.
#[derive(Debug)]
struct Scripts {
    /// Checks, reserves or peeks.
    check: Script,
    /// Checks several keys.
    many: Script,
    refund: Script,
    reset: Script,
}

impl Scripts {
    fn new(prelude: &str, limits: &[Single]) -> Self {
        let files = limits.first().filter(|_| limits.len() == 1).map(|limit| limit.form().files());
        let check = files.as_ref().map(|files| files.check.concat());
        let check = check.unwrap_or_else(|| general(limits, |files| files.takes) + CHECK);
        let refund = files.and_then(|files| files.refund).map(<[_]>::concat);
        let refund = refund.unwrap_or_else(|| general(limits, |files| files.refunds) + REFUND);
        let function = ["local function check(KEYS, ARGV)\n", &check, "end\n"].concat();
        Self {
            check: Script::new([prelude, &check].concat()),
            many: Script::new([prelude, &function, MANY].concat()),
            refund: Script::new([prelude, &refund].concat()),
            reset: Script::new(RESET.to_owned()),
        }
    }
}

/// Returns the functions of all algorithms that the limits have, and those over several limits.
fn general(limits: &[Single], functions: fn(Files) -> &'static [&'static str]) -> String {
    let mut source = [SCALED, FAMILIES].concat();
    for form in [Form::Gcra, Form::Window, Form::Ledger] {
        let files = functions(form.files());
        if limits.iter().any(|limit| functions(limit.form().files()) == files) {
            source += &files.concat();
        }
    }
    source
}
