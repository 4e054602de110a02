//! Many hosts, and hosts that try to take what others need.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    store::{Now, Store},
    *,
};

const FAST: Quota = Quota::per_second(5_000_000);

/// Announces another quota with each response, which is slower than [`FAST`] and faster than this test sends.
async fn vary_quota(layer: &ThrottleLayer, times: u64) {
    let count = Arc::new(AtomicU64::new(0));
    let client = layer.layer(service_fn(move |_: Request<Body>| {
        let burst = 4 * count.fetch_add(1, Ordering::Relaxed);
        let policy = format!(r#""api";q=1000000;w=1;burst={burst}"#);
        ready(Ok::<_, Infallible>(response(200, &[("ratelimit-policy", &policy)])))
    }));
    for _ in 0..times {
        client.clone().oneshot(request_to("hostile.example")).await.unwrap();
    }
}

/// Each response announces one permit in so many seconds, by the number of the host.
fn slow(layer: &ThrottleLayer) -> Throttle<impl Server> {
    layer.clone().within(Duration::ZERO).layer(service_fn(|request: Request<Body>| {
        let host = request.uri().host().unwrap();
        let number: u64 = host.split('.').next().unwrap().parse().unwrap();
        let policy = format!(r#""api";q=1;w={}"#, window(number));
        ready(Ok::<_, Infallible>(response(200, &[("ratelimit-policy", &policy)])))
    }))
}

const fn window(number: u64) -> u64 {
    100 + number % 400
}

/// Returns how many of these hosts have kept the pace that they announced.
async fn count_paced<S: Server>(client: &Throttle<S>, hosts: std::ops::Range<u64>) -> usize {
    let mut paced = 0;
    for number in hosts {
        match get(client, &format!("{number}.example")).await {
            Err(ThrottleError::NotSent(NotSent::WaitTooLong {
                retry_after: Some(wait), ..
            })) => {
                let window = window(number);
                assert!(
                    wait.as_secs() <= window * 8 / 7 && wait.as_secs() > window - 100,
                    "{wait:?}"
                );
                paced += 1;
            }
            Ok(_) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    paced
}

#[tokio::test]
async fn a_host_that_varies_its_quota_does_not_freeze_the_pace_of_others() {
    let layer = layer(Policy::gcra("outgoing", FAST));
    vary_quota(&layer, 66_000).await;
    let client = slow(&layer);
    get(&client, "1.example").await.unwrap();
    assert_eq!(count_paced(&client, 1..2).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pace_that_the_limiter_cannot_take_is_kept_and_reported() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let store = Store::new(FAST);
    store.set(Now::KeepsPolicy);
    let layer = ThrottleLayer::with_limiter(store).unwrap().observe({
        let kept = Arc::clone(&kept);
        move |event| {
            if let EventKind::PaceKeptHere { error } = event.kind {
                assert_eq!(error.kind(), ErrorKind::InvalidSetting);
                kept.lock().unwrap().push(event.host.to_owned());
            }
        }
    });
    let client = slow(&layer);
    get(&client, "1.example").await.unwrap();
    assert_eq!(count_paced(&client, 1..2).await, 1);
    assert_eq!(*kept.lock().unwrap(), ["1.example"]);
}

#[test]
fn memory_is_bounded_however_many_hosts_there_are() {
    let bytes = |hosts| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let layer = layer(Policy::gcra("outgoing", FAST));
        let client = slow(&layer);
        let measured = allocation_counter::measure(|| {
            runtime.block_on(async {
                for number in 0..hosts {
                    get(&client, &format!("{number}.example")).await.unwrap();
                }
            });
        });
        measured.bytes_current
    };
    let (full, flood) = (bytes(10_000), bytes(20_000));
    println!("{} bytes a host, {full} at 10,000 hosts, {flood} after 20,000", full / 10_000);
    assert!(flood < full / 10 * 11, "{full} {flood}");
}

/// A closure may return any text, also one that a client has chosen.
#[test]
fn long_names_of_hosts_share_one_entry() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let layer = layer(Policy::gcra("outgoing", FAST));
    let layer = layer.host(|head| Some(head.uri.path().repeat(10_000)));
    let client =
        layer.layer(service_fn(|_: Request<Body>| ready(Ok::<_, Infallible>(response(200, &[])))));
    let measured = allocation_counter::measure(|| {
        runtime.block_on(async {
            for number in 0..300 {
                let uri = format!("http://a.example/{number}");
                let request = Request::get(uri).body(Body::default()).unwrap();
                client.clone().oneshot(request).await.unwrap();
            }
        });
    });
    assert!(measured.bytes_current < 100_000, "{}", measured.bytes_current);
}

#[tokio::test]
async fn ten_thousand_hosts_keep_their_own_paces() {
    let client = slow(&layer(Policy::gcra("outgoing", FAST)));
    for number in 0..10_000 {
        get(&client, &format!("{number}.example")).await.unwrap();
    }
    assert_eq!(count_paced(&client, 0..10_000).await, 10_000);
}

#[tokio::test]
async fn a_host_too_many_makes_few_others_forgotten() {
    let client = slow(&layer(Policy::gcra("outgoing", FAST)));
    for number in 0..10_010 {
        get(&client, &format!("{number}.example")).await.unwrap();
    }
    let paced = count_paced(&client, 9_000..10_000).await;
    assert_eq!(paced, 1_000);
}
