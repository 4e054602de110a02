//! All scripts by name, so that operators recognise a digest in `SLOWLOG` or in an error.

use std::sync::LazyLock;

use limiter_core::{Policy, Quota};

use super::{PRELUDE, Script, Scripts, Single};

/// Returns the name and the source of each script that limiters send.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    static ALL: LazyLock<Vec<(String, String)>> = LazyLock::new(each);
    ALL.iter().map(|(name, source)| (name.as_str(), source.as_str()))
}

/// Returns the digest by which a server knows the script of a source.
#[must_use]
pub fn digest(source: &str) -> String {
    String::from_utf8_lossy(&Script::new(source.to_owned()).digest).into_owned()
}

fn each() -> Vec<(String, String)> {
    let quota = Quota::per_minute(10);
    let policies = [
        ("gcra", Policy::gcra("any", quota)),
        ("window", Policy::fixed_window("any", quota)),
        ("log", Policy::sliding_log("any", quota)),
        ("sliding-counter", Policy::sliding_counter("any", quota)),
    ];
    let single = |(name, policy): (&str, Policy)| {
        (name.to_owned(), policy.limits().iter().map(Single::new).collect::<Vec<_>>())
    };
    let mut sets: Vec<(String, Vec<Single>)> = policies.into_iter().map(single).collect();
    // The scripts over several limits depend on the set of their forms. A counter is a window there.
    let forms: Vec<_> = sets.iter().take(3).cloned().collect();
    for set in 1..1_usize << forms.len() {
        let chosen = forms.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
        let (names, limits): (Vec<_>, Vec<_>) = chosen.map(|(_, form)| form.clone()).unzip();
        let mut limits = limits.concat();
        limits.extend_from_within(..);
        sets.push((format!("several {}", names.join("+")), limits));
    }
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, limits) in sets {
        let Scripts { check, many, refund, reset } = Scripts::new(PRELUDE, &limits);
        let scripts = [
            (format!("{name} check"), check),
            (format!("{name} batch"), many),
            (format!("{name} refund"), refund),
            ("reset".to_owned(), reset),
        ];
        for (name, script) in scripts {
            let source = String::from_utf8_lossy(&script.source).into_owned();
            if all.iter().all(|(_, known)| *known != source) {
                all.push((name, source));
            }
        }
    }
    all
}
