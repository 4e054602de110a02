//! How fast and how slowly a client asks a server that says anything: never faster than the policy, and never silent for
//! longer than the longest pause.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::{announced::any_fields, *};

/// A response of a broken server.
#[derive(Clone, Debug)]
struct Broken {
    status: u16,
    fields: Vec<(String, String)>,
    millis: u64,
}

fn broken() -> impl Strategy<Value = Broken> {
    let list =
        (0..100_000_u64, 0..100_000_u64, 0..3_u64, 0..100_000_u64).prop_map(|(q, w, r, t)| {
            let field = |name: &str, value: String| (name.to_owned(), value);
            vec![
                field("ratelimit-policy", format!(r#""api";q={q};w={w}"#)),
                field("ratelimit", format!(r#""api";r={r};t={t}"#)),
            ]
        });
    let status = select(vec![200, 200, 403, 429, 429, 503]);
    let millis = prop_oneof![0..50_u64, 0..20_000_u64];
    (status, prop_oneof![2 => any_fields(), 1 => list], millis)
        .prop_map(|(status, fields, millis)| Broken { status, fields, millis })
}

/// Sends requests one after the other, and returns when.
fn sent(
    (permits, burst): (u64, u64),
    (longest, spend): (u64, Spend),
    responses: &[Broken],
) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let log = Log::default();
        let quota = Quota::per_minute(permits).with_burst(burst);
        let layer = ThrottleLayer::with_limiter(limiter(quota)).unwrap().spend(spend);
        let layer = layer.longest_pause(Duration::from_secs(longest)).within(Duration::MAX);
        let all = responses.to_owned();
        let client = slow_client(&layer, &log, move |index| {
            let Broken { status, fields, millis } = &all[index % all.len()];
            let fields: Vec<_> =
                fields.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            (Duration::from_millis(*millis), response(*status, &fields))
        });
        let start = Instant::now();
        for _ in 0..40 {
            get(&client, "a.example").await.unwrap();
        }
        log.since(start)
    })
}

proptest! {
    #[test]
    fn a_client_is_never_faster_than_its_policy_nor_silent_for_longer_than_the_longest_pause(
        permits in prop_oneof![1..60_u64, 60..6_000_u64],
        burst in 1..20_u64,
        longest in prop_oneof![1..10_u64, 1..10_000_u64],
        spend in select(vec![Spend::Freely, Spend::Evenly]),
        responses in vec(broken(), 1..12),
    ) {
        let interval = Duration::from_secs(60).as_secs_f64() / permits as f64;
        let most = Duration::from_secs(longest).as_secs_f64().max(interval);
        let sent = sent((permits, burst), (longest, spend), &responses);
        let sent: Vec<_> = sent.iter().map(Duration::as_secs_f64).collect();
        for (index, pair) in sent.windows(2).enumerate() {
            // The next request is there when the response has arrived.
            let response = responses[index % responses.len()].millis as f64 / 1_000.0;
            let gap = pair[1] - pair[0];
            prop_assert!(gap <= most.max(response) + 0.01, "{gap} after request {index}");
        }
        let mut debt = 0.0_f64;
        let mut last = 0.0;
        for (index, at) in sent.iter().enumerate() {
            debt = (debt - (at - last)).max(0.0) + interval;
            last = *at;
            // Timers have whole milliseconds.
            let burst = burst as f64 * interval + 0.002;
            prop_assert!(debt <= burst, "{debt} of {burst} at request {index}");
        }
    }
}

/// Refusals without fields, in any number, as in the longest pauses of two hours and of a second.
#[tokio::test(start_paused = true)]
async fn refusals_in_succession_silence_a_client_for_the_longest_pause_at_most() {
    for longest in [7_200 * SECOND, SECOND] {
        let log = Log::default();
        let layer = throttle(Quota::per_second(10));
        let layer = layer.longest_pause(longest).within(Duration::MAX);
        let fields: Fields<'static> = &[("x-ratelimit-limit", "1"), ("x-ratelimit-reset", "5000")];
        let client = client(&layer, &log, move |index| match index % 40 {
            39 => response(429, fields),
            _ => response(429, &[]),
        });
        let start = Instant::now();
        for _ in 0..100 {
            get(&client, "a.example").await.unwrap();
        }
        let sent = log.since(start);
        let longest_gap = sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest_gap <= longest + SECOND / 100, "{longest_gap:?}");
    }
}

/// A pace that ends gives no burst: the server has refused at one request a minute.
#[tokio::test(start_paused = true)]
async fn after_an_announced_pace_requests_do_not_go_all_at_once() {
    let log = Log::default();
    let layer = throttle(Quota::per_second(50).with_burst(50));
    let layer = layer.spend(Spend::Evenly).longest_pause(120 * SECOND).within(Duration::MAX);
    let client = client(&layer, &log, |index| match index {
        0 | 1 => response(200, &[("ratelimit-policy", r#""api";q=1;w=60"#)]),
        _ => response(200, &[]),
    });
    let start = Instant::now();
    send_all(&client, "a.example", 60).await;
    let sent = log.since(start);
    let ended = sent.windows(2).position(|pair| pair[1] - pair[0] < 2 * SECOND).unwrap();
    let in_a_second = sent.iter().filter(|at| **at >= sent[ended] && **at < sent[ended] + SECOND);
    let in_a_second = in_a_second.count();
    assert!(in_a_second <= 51, "{in_a_second}");
    let at_once = sent[ended..].iter().filter(|at| **at - sent[ended] < SECOND / 50);
    assert!(at_once.count() <= 3, "{sent:?}");
}
