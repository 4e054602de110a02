//! Limits that servers announce.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::{
    server::{Form, Limit, server},
    *,
};

/// Returns how long a server's clients took for 201 requests, at the pace of what it announced.
async fn time_for_200(fields: Fields<'_>) -> f64 {
    let fields: Vec<_> = fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let log = Log::default();
    let layer = unlimited().spend(Spend::Evenly).within(Duration::from_secs(86_400));
    let client = client(&layer, &log, move |_| {
        let fields: Vec<_> = fields.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        response(200, &fields)
    });
    let start = Instant::now();
    send_all(&client, "a.example", 201).await;
    start.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn the_pace_is_what_is_announced() {
    let in_100_seconds =
        (SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 100).to_string();
    // What is announced, and at which rate and burst the client sends.
    let cases: &[(Fields<'_>, f64, f64)] = &[
        (&[("ratelimit-policy", r#""api";q=10;w=1"#)], 10.0, 1.0),
        (&[("ratelimit-policy", r#""api";q=600;w=60;limiter-burst=4"#)], 10.0, 1.0),
        (
            &[("ratelimit-policy", r#""api";q=10;w=1"#), ("ratelimit", r#""api";r=9;t=1"#)],
            10.0,
            1.0,
        ),
        // The slowest of several, on several lines too.
        (&[("ratelimit-policy", r#""a";q=10;w=1, "b";q=60;w=60"#)], 0.95, 1.0),
        (
            &[
                ("ratelimit-policy", r#""a";q=10;w=1"#),
                ("ratelimit-policy", r#""b";q=60;w=60;qu="requests""#),
            ],
            0.95,
            1.0,
        ),
        // Another unit does not count.
        (
            &[("ratelimit-policy", r#""a";q=10;w=1, "bytes";q=1;w=60;qu="content-bytes""#)],
            10.0,
            1.0,
        ),
        (
            &[
                ("ratelimit-policy", r#""a";q=10;w=1, "bytes";q=900;w=60;qu="content-bytes""#),
                ("ratelimit", r#""a";r=9;t=1, "bytes";r=50;t=101"#),
            ],
            10.0,
            1.0,
        ),
        // Less remains than the quota: 50 in 100 s.
        (&[("ratelimit-policy", "api;q=100;w=100"), ("ratelimit", "api;r=50;t=101")], 0.5, 2.0),
        // The same with the names of the parameters that the next draft is to have, and its cost.
        (&[("ratelimit-policy", "api;q=100;w=100"), ("ratelimit", "api;a=50;w=101;c=1")], 0.5, 2.0),
        // A limit of requests in flight has neither a window nor a reset.
        (
            &[
                ("ratelimit-policy", r#""a";q=10;w=1, "uploads";q=3;qu="concurrent-requests""#),
                ("ratelimit", r#""a";r=9;t=1, "uploads";r=0"#),
            ],
            10.0,
            1.0,
        ),
        // Drafts 03 to 06.
        (&[("ratelimit-policy", "10;w=1, 10;w=10")], 0.95, 1.0),
        (
            &[
                ("ratelimit-limit", "100, 100;w=10"),
                ("ratelimit-remaining", "50"),
                ("ratelimit-reset", "101"),
            ],
            0.5,
            2.0,
        ),
        (
            &[
                ("x-ratelimit-limit", "100"),
                ("x-ratelimit-remaining", "50"),
                ("x-ratelimit-reset", &in_100_seconds),
            ],
            0.5,
            2.0,
        ),
    ];
    for (fields, rate, burst) in cases {
        let seconds = time_for_200(fields).await;
        let expected = (200.0 - burst) / rate;
        let ratio = seconds / expected;
        assert!((0.95..1.15).contains(&ratio), "{fields:?}: {seconds} s, expected {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_a_reset_in_unix_time() {
    let log = Log::default();
    let (real_start, now) = (std::time::Instant::now(), SystemTime::now());
    let reset = now.duration_since(UNIX_EPOCH).unwrap().as_secs() + 100;
    let left = (UNIX_EPOCH + Duration::from_secs(reset)).duration_since(now).unwrap();
    let reset = reset.to_string();
    let client = client(&unlimited().within(2 * left), &log, move |_| {
        response(200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)])
    });
    let start = Instant::now();
    send_all(&client, "a.example", 2).await;
    // Tokio's clock did not move while the server's did.
    let second = log.since(start)[1] + real_start.elapsed();
    assert!(second >= left, "{second:?} of {left:?}");
}

/// A server that announces its last request for a day, and then nothing, is not left at that pace.
#[tokio::test(start_paused = true)]
async fn an_announcement_that_is_not_repeated_is_forgotten_after_the_longest_pause() {
    let log = Log::default();
    let longest = Duration::from_secs(60);
    let layer = unlimited().spend(Spend::Evenly).longest_pause(longest);
    let layer = layer.within(Duration::from_secs(86_400));
    let client = client(&layer, &log, |index| match index {
        0 => response(200, &[("ratelimit", r#""api";r=1;t=86400"#)]),
        _ => response(200, &[]),
    });
    let start = Instant::now();
    send_all(&client, "a.example", 100).await;
    let (sent, seconds) = (log.since(start), start.elapsed().as_secs());
    assert!(sent[1] > longest / 2, "{sent:?}");
    assert!(seconds < 4 * 60, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_each_algorithm_refuses_nothing_and_is_used_in_full() {
    let quota = Quota::per_second(100).with_burst(10);
    let slots = limiter_core::Slots::strict(10);
    // Under sliding windows, the fields report when all has recovered, so less is used.
    let policies = [
        (Policy::gcra("api", quota), 0.95),
        (Policy::gcra("api", Quota::per_minute(600).with_burst(1)), 0.95),
        (Policy::leaky_queue("api", 1, Quota::per_second(50).with_burst(1)), 0.95),
        (Policy::fixed_window("api", Quota::per_second(100)), 0.9),
        (Policy::aligned_window("api", Quota::per_minute(600)), 0.8),
        (Policy::sub_windows("api", Quota::per_minute(600), slots), 0.35),
        (Policy::sliding_counter("api", Quota::per_minute(600)), 0.35),
        (Policy::sliding_log("api", Quota::per_minute(600)), 0.35),
    ];
    for (policy, least) in policies {
        for form in [Form::List, Form::Three, Form::X] {
            let log = Log::default();
            let server = server(&Limit::new(policy.clone()), form, &log);
            let layer = throttle(Quota::per_second(500).with_burst(10)).within(86_400 * SECOND);
            let client = layer.queue(5_000).layer(server);
            let start = Instant::now();
            send_all(&client, "a.example", 600).await;
            let limit = policy.limits()[0].quota();
            let rate =
                f64::from(u32::try_from(limit.permits()).unwrap()) / limit.window().as_secs_f64();
            let seconds = start.elapsed().as_secs_f64();
            let used = 600.0 / seconds / rate;
            let refused = log.count(429);
            let (algorithm, quota) = (policy.limits()[0].algorithm(), policy.limits()[0].quota());
            let used_percent = used * 100.0;
            println!(
                "{quota} by {algorithm}, {form:?}: {refused} refused, {used_percent:.0} % used"
            );
            if form == Form::List {
                assert_eq!(refused, 0, "{policy:?}");
                assert!(used > least, "{policy:?}: {used}");
            } else {
                // These fields announce no rate. The figures depend on the part of a second that the
                // system's clock is at.
                assert!(refused < 300, "{policy:?}: {refused}");
            }
        }
    }
}

/// A limit of an hour by GCRA, of which permits recover one by one, is spent freely: the first ten at
/// once, and then one at each reset.
#[tokio::test(start_paused = true)]
async fn a_long_limit_without_windows_is_spent_without_a_refusal() {
    let log = Log::default();
    let policy = Policy::gcra("api", Quota::per_hour(600).with_burst(10));
    let server = server(&Limit::new(policy), Form::List, &log);
    let client = unlimited().within(Duration::from_secs(3_600)).layer(server);
    let start = Instant::now();
    send_all(&client, "a.example", 60).await;
    assert_eq!((log.count(200), log.count(429)), (60, 0));
    assert!(log.since(start)[9] < Duration::from_secs(1), "{:?}", log.since(start));
    let ideal = 50 * 6;
    assert!((ideal..ideal + 60).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

/// The last response of an hour leaves a second to its reset, which is too short to be waited for.
#[tokio::test(start_paused = true)]
async fn a_long_limit_is_not_spent_evenly_after_its_last_second() {
    let log = Log::default();
    let client = client(&unlimited(), &log, |index| {
        let state = if index == 0 { r#""api";r=5;t=1"# } else { r#""api";r=90;t=3600"# };
        response(200, &[("ratelimit-policy", r#""api";q=100;w=3600"#), ("ratelimit", state)])
    });
    let start = Instant::now();
    send_all(&client, "a.example", 50).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// At most 16 refusals follow a change of the server's limit, and 95 % of it is used.
#[tokio::test(start_paused = true)]
async fn a_changed_limit_is_followed_at_once() {
    let log = Log::default();
    let policy = |permits| Policy::gcra("api", Quota::per_second(permits).with_burst(permits / 10));
    let limit = Limit::new(policy(1_000));
    let server = server(&limit, Form::List, &log);
    let client = unlimited().within(Duration::from_secs(3_600)).queue(100_000).layer(server);
    let requests = tokio::spawn(async move { send_all(&client, "a.example", 14_000).await });
    for permits in [1_000, 200, 500, 50, 1_000] {
        limit.set(&policy(permits));
        sleep(Duration::from_secs(1)).await;
        let (admitted, refused) = (log.count(200), log.count(429));
        sleep(Duration::from_secs(4)).await;
        let used = (log.count(200) - admitted) as f64 / 4.0 / permits as f64;
        println!("{permits}/s: {refused} refused so far, {used:.2} used");
        assert!(used > 0.95, "{permits}: {used}");
    }
    assert!(log.count(429) <= 4 * 16, "{}", log.count(429));
    requests.abort();
}

/// Each pace has another span, so that a limiter in memory has no state for it yet.
#[tokio::test(start_paused = true)]
async fn a_slower_pace_after_each_response_gives_no_new_burst() {
    let log = Log::default();
    let client = client(&unlimited(), &log, |index| {
        let policy = format!(r#""api";q={};w=60;limiter-burst=400"#, 600 - index);
        response(200, &[("ratelimit-policy", &policy)])
    });
    let start = Instant::now();
    send_all(&client, "a.example", 200).await;
    let sent = log.since(start);
    // A quarter of the announced burst at once, and then at most 600 in a minute.
    for (index, at) in sent.iter().enumerate() {
        let most = 100.0 + at.as_secs_f64() * 10.0;
        assert!((index as f64) < most + 1.0, "{index} after {at:?}");
    }
    // By the slowest pace, of 400 in a minute, the last one is sent after 15 s.
    assert!(sent[199] < Duration::from_secs(16), "{:?}", sent[199]);
}

/// Names and values of which servers make their fields, and others.
pub(crate) fn any_fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = vec![
        "age",
        "date",
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    let number = || {
        prop_oneof![
            (0..100_u64).prop_map(|number| number.to_string()),
            any::<u64>().prop_map(|number| number.to_string()),
            "[0-9.-]{1,25}",
            any::<u32>().prop_map(|seconds| {
                httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.into()))
            }),
        ]
    };
    let member = (number(), number(), "[a-z]{1,3}").prop_map(|(a, b, name)| {
        [format!("\"{name}\";q={a};w={b}"), format!("\"{name}\";r={a};t={b}"), format!("{a};w={b}")]
    });
    let value = prop_oneof![
        number(),
        (vec(member, 1..20), 0..3_usize).prop_map(|(members, form)| {
            let members: Vec<_> =
                members.iter().filter_map(|forms| forms.get(form).cloned()).collect();
            members.join(", ")
        }),
        "[ -~]{0,40}",
    ];
    vec((select(names).prop_map(str::to_owned), value), 0..6)
}
