//! Configuration files: what is read, how it is written, and what each error says, and where.

use limiter_core::{Algorithm, Cost, ErrorKind, Policies, Policy, Quota, Slots};
use serde_json::json;

const FILE: &str = r#"
search = "100/min burst 20 horizon 5min"

[login]
limit = "5/min by sliding-log"
[login.tiers]
staff = "50/min by sliding-log"
trusted = "20/min"

[api.limits]
burst = "10/s"
hourly = "100/h by sliding-log"
[api.tiers.premium]
burst = "100/s"
hourly = "1000/h by sliding-log"
[api.tiers.trial]
burst = "1/s"
hourly = "10/h"
"#;

#[test]
fn a_file_gives_the_policies_and_tiers_that_it_names() {
    let named = |name, text| Policy::parse(name, text).unwrap();
    let limits = |name, burst, hourly| {
        Policy::several(name, [named("burst", burst), named("hourly", hourly)]).unwrap()
    };
    let expected = Policies::new([
        named("search", "100/min burst 20 horizon 5min"),
        named("login", "5/min by sliding-log"),
        limits("api", "10/s", "100/h by sliding-log"),
    ])
    .and_then(|all| all.with_tier("login", named("staff", "50/min by sliding-log")))
    .and_then(|all| all.with_tier("login", named("trusted", "20/min by sliding-log")))
    .and_then(|all| all.with_tier("api", limits("premium", "100/s", "1000/h by sliding-log")))
    .and_then(|all| all.with_tier("api", limits("trial", "1/s", "10/h by sliding-log")))
    .unwrap();

    let policies: Policies = toml::from_str(FILE).unwrap();
    assert_eq!(policies, expected);
    let names: Vec<_> = policies.iter().map(Policy::name).collect();
    assert_eq!(names, ["api", "login", "search"]);
    let tiers = |name| policies.tiers(name).map(Policy::name).collect::<Vec<_>>();
    assert_eq!(tiers("login"), ["staff", "trusted"]);
    assert!(tiers("search").is_empty() && tiers("nothing").is_empty());
    let trusted = policies.tier("login", "trusted").unwrap();
    assert_eq!(trusted.limits()[0].to_string(), "20/min by sliding-log");
    assert_eq!(policies.get("login").unwrap().families(), trusted.families());
    assert_eq!(policies.tier("search", "trusted"), None);
    assert_eq!(policies.tier("nothing", "trusted"), None);
    assert_eq!(policies.get("nothing"), None);

    let json: serde_json::Value = toml::from_str(FILE).unwrap();
    assert_eq!(serde_json::from_value::<Policies>(json.clone()).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Policies>(&json.to_string()).unwrap(), expected);
}

#[test]
fn tiers_may_precede_the_limit() {
    let text = r#"{"login": {"tiers": {"staff": "50/min"}, "limit": "5/min by sliding-log"}}"#;
    let policies: Policies = serde_json::from_str(text).unwrap();
    let staff = policies.tier("login", "staff").unwrap();
    assert_eq!(staff.limits()[0].algorithm(), Algorithm::SlidingLog);
}

#[test]
fn invalid_tiers_are_refused() {
    let policy = |name, text| Policy::parse(name, text).unwrap();
    let all = || {
        let all = Policies::new([policy("a", "5/s")]).unwrap();
        all.with_tier("a", policy("t", "6/s")).unwrap()
    };
    let rows = [
        ("b", policy("t", "6/s"), ErrorKind::InvalidName),
        ("a", policy("a", "6/s"), ErrorKind::InvalidName),
        ("a", policy("t", "7/s"), ErrorKind::InvalidName),
        ("a", policy("u", "6/s by sliding-log"), ErrorKind::InvalidSetting),
    ];
    for (name, tier, kind) in rows {
        assert_eq!(all().with_tier(name, tier).unwrap_err().kind(), kind);
    }
    let queue = all().with_tier("a", policy("u", "6/s by leaky-queue depth 5")).unwrap();
    assert_eq!(queue.tiers("a").count(), 2);
    let twice = Policies::new([policy("a", "5/s"), policy("a", "6/s")]);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidName);
}

#[test]
fn an_empty_file_has_no_policies() {
    assert_eq!(toml::from_str::<Policies>("").unwrap(), Policies::default());
    assert_eq!(toml::to_string(&Policies::default()).unwrap(), "");
}

#[test]
fn policies_are_written_in_the_shortest_form() {
    let policies: Policies = toml::from_str(FILE).unwrap();
    let written = serde_json::to_value(&policies).unwrap();
    let shortest = json!({
        "search": "100/min burst 20 horizon 5min",
        "login": {
            "limit": "5/min by sliding-log",
            "tiers": {"staff": "50/min", "trusted": "20/min"},
        },
        "api": {
            "limits": {"burst": "10/s", "hourly": "100/h by sliding-log"},
            "tiers": {
                "premium": {"burst": "100/s", "hourly": "1000/h"},
                "trial": {"burst": "1/s", "hourly": "10/h"},
            },
        },
    });
    assert_eq!(written, shortest);
    let toml = toml::to_string(&policies).unwrap();
    assert_eq!(toml::from_str::<Policies>(&toml).unwrap(), policies, "{toml}");
}

/// Names and algorithms that no file would give: tiers and limits under other names, tiers of
/// another algorithm of the family.
#[test]
fn every_policy_reads_back() {
    let parse = |name, text| Policy::parse(name, text).unwrap();
    let several = |name, limits: &[Policy]| Policy::several(name, limits.to_vec()).unwrap();
    let (a, b) = (parse("a", "1/s"), parse("b", "60/h by leaky-queue depth 5"));
    let (twice_a, more_b) =
        (parse("a", "2/s horizon 2h"), parse("b", "80/h by leaky-queue depth 6"));
    let (c, d) = (parse("c", "3/s"), parse("d", "90/h"));
    let rows = [
        (parse("p", "1/s"), vec![]),
        (parse("p", "1/s horizon 90s"), vec![]),
        (parse("p", "1/s by sliding-log"), vec![]),
        (parse("quoted \" and \\", "1/s"), vec![]),
        (several("p", std::slice::from_ref(&a)), vec![]),
        (parse("p", "1/s"), vec![several("t", &[parse("x", "2/s")])]),
        (parse("p", "1/s"), vec![parse("t", "2/s by leaky-queue depth 2")]),
        (several("p", std::slice::from_ref(&a)), vec![parse("t", "2/s")]),
        (parse("p", "1/s by leaky-queue depth 1"), vec![parse("t", "2/s by leaky-queue depth 2")]),
        (parse("p", "1/s by leaky-queue depth 1"), vec![parse("t", "2/s")]),
        (
            parse("p", "6/s by sub-windows 6 slots"),
            vec![parse("t", "6/s by sub-windows 6 slots loose")],
        ),
        (
            several("p", &[a.clone(), b.clone()]),
            vec![several("t", &[twice_a, b]), several("u", &[a, more_b]), several("v", &[c, d])],
        ),
    ];
    for (policy, tiers) in rows {
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy, "{json}");
        let toml = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<Policy>(&toml).unwrap(), policy, "{toml}");
        let name = policy.name().to_owned();
        let all = tiers.into_iter().fold(Policies::new([policy]), |all, tier| {
            all.and_then(|all| all.with_tier(&name, tier))
        });
        let all = all.unwrap();
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Policies>(&json).unwrap(), all, "{json}");
        let toml = toml::to_string(&all).unwrap();
        assert_eq!(toml::from_str::<Policies>(&toml).unwrap(), all, "{toml}");
    }
}

#[test]
fn a_policy_alone_is_a_table_of_one() {
    let policy = Policy::parse("search", "100/min").unwrap();
    let json = json!({"search": "100/min"});
    assert_eq!(serde_json::to_value(&policy).unwrap(), json);
    assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), policy);
    let not_one = "expected one policy by its name, without tiers";
    for (json, message) in [
        (
            json!("100/min"),
            "invalid type: string \"100/min\", expected a table of policies by name",
        ),
        (json!({}), not_one),
        (json!({"search": "100/min", "login": "5/min"}), not_one),
        (json!({"search": {"limit": "100/min", "tiers": {"staff": "6/s"}}}), not_one),
        (json!({"search": {}}), "policy \"search\": no limit; add limit or limits"),
        (
            json!({"search": {"rate": 1}}),
            "policy \"search\": unknown field \"rate\"; use limit, limits, tiers",
        ),
    ] {
        assert_eq!(serde_json::from_value::<Policy>(json).unwrap_err().to_string(), message);
    }
}

#[test]
fn quotas_and_algorithms_are_texts_and_costs_are_numbers() {
    let quota = Quota::per_minute(100).with_burst(20);
    assert_eq!(serde_json::to_value(quota).unwrap(), json!("100/min burst 20"));
    assert_eq!(serde_json::from_value::<Quota>(json!("100/min burst 20")).unwrap(), quota);

    let algorithms = [
        (Algorithm::AlignedWindow, "aligned-window"),
        (Algorithm::SubWindows(Slots::loose(6).unwrap()), "sub-windows 6 slots loose"),
    ];
    for (algorithm, text) in algorithms {
        assert_eq!(serde_json::to_value(algorithm).unwrap(), json!(text));
        assert_eq!(serde_json::from_value::<Algorithm>(json!(text)).unwrap(), algorithm);
    }

    let cost = Cost::of(u64::MAX);
    assert_eq!(serde_json::to_value(cost).unwrap(), json!(u64::MAX));
    assert_eq!(serde_json::from_value::<Cost>(json!(u64::MAX)).unwrap(), cost);
    let one: std::collections::HashMap<String, Cost> = toml::from_str("upload = 10").unwrap();
    assert_eq!(one["upload"].get(), 10);

    let errors = [
        serde_json::from_value::<Quota>(json!(5)).unwrap_err(),
        serde_json::from_value::<Quota>(json!("5")).unwrap_err(),
        serde_json::from_value::<Algorithm>(json!(null)).unwrap_err(),
        serde_json::from_value::<Algorithm>(json!("leaky-queue")).unwrap_err(),
        serde_json::from_value::<Cost>(json!(0)).unwrap_err(),
        serde_json::from_value::<Cost>(json!(-1)).unwrap_err(),
        serde_json::from_value::<Cost>(json!("1")).unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "invalid type: integer `5`, expected a quota such as \"100/min burst 20\"",
            "invalid quota \"5\": it has no \"/\"; write permits per time, as in 100/min",
            "invalid type: null, expected an algorithm such as \"sliding-log\"",
            "invalid algorithm \"leaky-queue\": the depth is missing; write leaky-queue depth N",
            "invalid cost 0: it must be at least 1",
            "invalid value: integer `-1`, expected u64",
            "invalid type: string \"1\", expected u64",
        ]
    );
}

#[test]
fn an_error_reports_the_line_and_quotes_the_value() {
    let error = toml::from_str::<Policies>("search = \"100/min\"\nlogin = \"5/fortnight\"\n");
    let message = r#"TOML parse error at line 2, column 9
  |
2 | login = "5/fortnight"
  |         ^^^^^^^^^^^^^
policy "login": invalid quota "5/fortnight": unknown unit of time "fortnight"; use ms, s, min, h or d
"#;
    assert_eq!(error.unwrap_err().to_string(), message);

    let rows = [
        ("search = 5", (1, 10)),
        ("[login]\nlimit = \"5/min\"\nlimt = \"6/min\"", (3, 1)),
        ("[login]\nlimit = \"5/min\"\nlimits.a = \"6/min\"", (3, 1)),
        ("[login]\nlimit = \"5/min\"\n[login.tiers]\nstaff = \"6/min by log\"", (4, 9)),
        ("[api.limits]\nburst = \"5/s\"\nhourly = 100", (3, 10)),
        // What needs the whole policy is reported at its beginning.
        ("a = \"1/s\"\n[login]\nlimit = \"5/min burst 6 by sliding-log\"", (2, 1)),
        ("a = \"1/s\"\n[login]\ntiers.staff = \"5/min\"", (2, 1)),
    ];
    for (file, (line, column)) in rows {
        let error = toml::from_str::<Policies>(file).unwrap_err().to_string();
        let place = format!("TOML parse error at line {line}, column {column}\n");
        assert!(error.starts_with(&place), "{error}");
    }
}

#[test]
fn invalid_files_are_refused_by_the_part_that_is_wrong() {
    for (text, message) in REFUSED {
        let error = serde_json::from_str::<Policies>(text).unwrap_err().to_string();
        let error = error.split(" at line ").next().unwrap();
        assert_eq!(error, *message, "{text}");
    }
}

const REFUSED: &[(&str, &str)] = &[
    ("[]", "invalid type: sequence, expected a table of policies by name"),
    (
        r#"{"a": "5/fortnight"}"#,
        r#"policy "a": invalid quota "5/fortnight": unknown unit of time "fortnight"; use ms, s, min, h or d"#,
    ),
    (
        r#"{"a": 5}"#,
        r#"invalid type: integer `5`, expected a limit such as "100/min burst 20", or a table with the field limit or limits, for policy "a""#,
    ),
    (r#"{"a": {}}"#, r#"policy "a": no limit; add limit or limits"#),
    (
        r#"{"a": {"limit": 5}}"#,
        r#"invalid type: integer `5`, expected a limit such as "100/min burst 20" for policy "a""#,
    ),
    (
        r#"{"a": {"limits": "5/s"}}"#,
        r#"invalid type: string "5/s", expected a table of limits by name for policy "a""#,
    ),
    (r#"{"a": {"limits": {}}}"#, r#"invalid policy "a": it has 0 limits; use 1 to 8"#),
    (
        r#"{"a": {"limits": {"b": "5/s burst 6 by sliding-log"}}}"#,
        r#"limit "b" of policy "a": invalid quota "5/s burst 6": sliding-log has no burst of its own; leave the burst out"#,
    ),
    (
        r#"{"a": {"limits": {"": "5/s"}}}"#,
        r#"policy "a": invalid limit name "": use at least one character"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "5/s"}}}"#,
        r#"invalid policy "a": "b" and "c" are the same limit (5/s); leave one out"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "9/d by"}}}"#,
        r#"limit "c" of policy "a": invalid limit "9/d by": the algorithm is missing; use gcra, token-bucket, leaky-bucket, leaky-queue, fixed-window, aligned-window, sub-windows, sliding-counter or sliding-log"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s"}, "limit": "5/s"}}"#,
        r#"policy "a": "limit" can't follow "limits"; use one of them"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"": "6/s"}}}"#,
        r#"tier "" of policy "a": invalid policy name "": use at least one character"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "b": "60/min"}}}"#,
        r#"invalid policy "a": two limits are named "b"; rename one"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "limits": {"b": "5/s"}}}"#,
        r#"policy "a": "limits" can't follow "limit"; use one of them"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "limit": "5/s"}}"#,
        r#"policy "a": duplicate field "limit"; remove one"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "limt": "5/s"}}"#,
        r#"policy "a": unknown field "limt"; use limit, limits, tiers"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "name": "a"}}"#,
        r#"policy "a": unknown field "name"; use limit, limits, tiers"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": "6/s"}}"#,
        r#"invalid type: string "6/s", expected a table of tiers by name for policy "a""#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"a": "6/s"}}}"#,
        r#"tier "a" of policy "a": invalid tier "a": it is the policy's name; rename the tier"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/s", "t": "7/s"}}}"#,
        r#"tier "t" of policy "a": two tiers are named "t"; rename one"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {}, "tiers": {}}}"#,
        r#"policy "a": duplicate field "tiers"; remove one"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": 6}}}"#,
        r#"invalid type: integer `6`, expected a limit such as "100/min burst 20", or a table of limits by name, for tier "t" of policy "a""#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/x"}}}"#,
        r#"tier "t" of policy "a": invalid quota "6/x": unknown unit of time "x"; use ms, s, min, h or d"#,
    ),
    (
        r#"{"a": {"limit": "5/s", "tiers": {"t": "6/s by sliding-log"}}}"#,
        r#"tier "t" of policy "a": invalid policy "t": it limits by sliding-log, and the limiter's states are those of gcra ("a"); use the same algorithms in the same order"#,
    ),
    (
        r#"{"a": {"limit": "5/s by sliding-log", "tiers": {"t": "6/s burst 7"}}}"#,
        r#"tier "t" of policy "a": invalid quota "6/s burst 7": sliding-log has no burst of its own; leave the burst out"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": "6/s"}}}"#,
        r#"tier "t" of policy "a": the policy has several limits; give the tier's limits their names, "b", "c""#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "d": "6/h"}}}}"#,
        r#"limit "d" of tier "t" of policy "a": the policy has several limits; give the tier's limits their names, "b", "c""#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s"}}}}"#,
        r#"tier "t" of policy "a": invalid policy "t": it limits by gcra, and the limiter's states are those of gcra+gcra ("a"); use the same algorithms in the same order"#,
    ),
    (
        r#"{"a": {"limits": {"b": "5/s", "c": "6/h"}, "tiers": {"t": {"b": "5/s", "c": "6/s horizon 1.5h"}}}}"#,
        r#"limit "c" of tier "t" of policy "a": invalid horizon "1.5h": "1.5h" is not a time; use a whole number and one unit, as in 90s or 500ms"#,
    ),
    (r#"{"a": "5/s", "a": "5/s"}"#, r#"two policies are named "a"; rename one"#),
    (
        r#"{"größe": "5/s"}"#,
        r#"policy "größe": invalid policy name "größe": use printable ASCII only"#,
    ),
    (r#"{"": "5/s"}"#, r#"policy "": invalid policy name "": use at least one character"#),
    (
        r#"{"5": "5/s", "6": {"limit": "x"}}"#,
        r#"policy "6": invalid quota "x": it has no "/"; write permits per time, as in 100/min"#,
    ),
];
