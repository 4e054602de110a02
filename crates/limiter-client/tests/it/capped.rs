//! What a hostile or broken server can do to its client at most.

use crate::*;

/// Ten requests are in flight. Each response arrives before the pause by the one before it is over. The next request is
/// sent when the longest pause has passed since the last one.
#[tokio::test(start_paused = true)]
async fn slow_responses_cannot_extend_a_pause_beyond_the_longest_pause() {
    let cases: [(u16, Fields<'static>); 2] =
        [(429, &[("retry-after", "1000")]), (200, &[("ratelimit", r#""api";r=0;t=1000"#)])];
    for (status, fields) in cases {
        let log = Log::default();
        let layer = unlimited().longest_pause(100 * SECOND).within(10_000 * SECOND);
        let client = slow_client(&layer, &log, move |index| match u32::try_from(index).unwrap() {
            index @ 1..11 => (index * 90 * SECOND, response(status, fields)),
            _ => (SECOND / 100, response(200, &[])),
        });
        let start = Instant::now();
        get(&client, "a.example").await.unwrap();
        (0..10).for_each(|_| drop(spawn(&client)));
        sleep(91 * SECOND).await;
        assert_eq!(get(&client, "a.example").await.unwrap(), 200);
        let sent = log.since(start)[11];
        assert!(sent >= 100 * SECOND && sent < 101 * SECOND, "{fields:?}: {sent:?}");
    }
}

/// A refusal that permits the next request at once is one without a time.
#[tokio::test(start_paused = true)]
async fn refusals_until_now_slow_a_client_down() {
    let log = Log::default();
    let fields = [("retry-after", "0"), ("ratelimit", r#""api";r=5000;t=3600"#)];
    let layer = throttle(Quota::per_second(100).with_burst(1));
    let client = client(&layer.within(3_600 * SECOND), &log, move |_| response(429, &fields));
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(get(&client, "a.example").await.unwrap(), 429);
    }
    assert!(start.elapsed() > 30 * SECOND, "{:?}", start.elapsed());
}

/// A field is parsed whole, so a long one is not read.
#[tokio::test(start_paused = true)]
async fn fields_of_many_bytes_are_not_read() {
    for (count, waits) in [(10, true), (10_000, false)] {
        let mut long = response(200, &[("ratelimit", r#""api";r=0;t=30"#)]);
        for index in 0..count {
            let member = format!(r#""{index}";r=1;t=1"#);
            long.headers_mut().append("ratelimit", member.parse().unwrap());
        }
        assert_eq!(second_after(&unlimited(), long).await >= 30 * SECOND, waits, "{count}");
    }
}
