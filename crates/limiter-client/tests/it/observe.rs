//! Events, metrics, and permits that can't be given back.

use crate::{
    store::{Now, Store},
    *,
};

/// Responds to the n-th request in another way.
fn server(layer: &ThrottleLayer) -> impl Fn() -> Sending + use<> {
    let index = Arc::new(Mutex::new(0));
    let client = layer.layer(service_fn(move |_: Request<Body>| {
        let mut index = index.lock().unwrap();
        *index += 1;
        ready(match *index {
            1 => Ok(response(200, &[("ratelimit-policy", r#""api";q=2;w=1"#)])),
            2 => Ok(response(429, &[("retry-after", "30")])),
            _ => Err(io::Error::other("connection refused")),
        })
    }));
    move || Box::pin(client.clone().oneshot(request_to("a.example")))
}

type Sending = Pin<Box<dyn Future<Output = Result<Response<Body>, ThrottleError<io::Error>>>>>;

/// Sends four requests: one that is refused, one that waits too long, and one that fails.
async fn send_four(layer: &ThrottleLayer) {
    let get = server(&layer.clone().within(SECOND));
    assert!(get().await.is_ok());
    assert!(get().await.is_ok());
    assert!(get().await.is_err());
    sleep(30 * SECOND).await;
    assert!(get().await.is_err());
}

const FOUR: [&str; 8] =
    ["sent", "pace_changed", "sent", "refused", "paused", "wait_too_long", "sent", "failed"];

#[tokio::test(start_paused = true)]
async fn an_observer_receives_each_event_with_its_host() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let layer = unlimited().observe(move |event| {
        assert_eq!((event.policy, event.host), ("outgoing", "a.example"));
        match event.kind {
            EventKind::Paused { pause } => assert_eq!(pause, 30 * SECOND),
            EventKind::PaceChanged { quota } => assert_eq!(quota.to_string(), "2/s burst 1"),
            EventKind::Refused { status } => assert_eq!(status, 429),
            _ => {}
        }
        seen.lock().unwrap().push(event.kind.name());
    });
    send_four(&layer).await;
    assert_eq!(*events.lock().unwrap(), FOUR);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_harms_no_request() {
    send_four(&unlimited().observe(|_| panic!("an observer that panics"))).await;
}

#[test]
fn metrics_have_help_texts_and_no_label_of_a_host() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async { send_four(&unlimited()).await });
    });
    let mut recorded: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, help, _)| {
            assert!(help.is_some(), "{} has no help text", key.key().name());
            let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            format!("{} {}", key.key().name(), labels.join(" "))
        })
        .collect();
    recorded.sort();
    assert_eq!(
        recorded,
        [
            "ratelimit_client_events_total outgoing failed",
            "ratelimit_client_events_total outgoing pace_changed",
            "ratelimit_client_events_total outgoing paused",
            "ratelimit_client_events_total outgoing refused",
            "ratelimit_client_events_total outgoing sent",
            "ratelimit_client_events_total outgoing wait_too_long",
            "ratelimit_client_pause_seconds outgoing",
            "ratelimit_client_wait_seconds outgoing",
        ]
    );
}

/// A service that is never ready.
#[derive(Clone)]
struct NeverReady;

impl Service<Request<Body>> for NeverReady {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = std::future::Pending<io::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Pending
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        pending()
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_cannot_be_given_back_is_reported() {
    let store = Store::new(Quota::per_second(1));
    let (layer, events) = observed(ThrottleLayer::with_limiter(store.clone()).unwrap());
    let layer = layer.within(SECOND);
    let request = tokio::spawn(layer.layer(NeverReady).oneshot(request_to("a.example")));
    sleep(SECOND / 2).await;
    store.set(Now::Fails);
    assert!(request.await.unwrap().is_err());
    yield_now().await;
    let mut events = events.lock().unwrap().clone();
    events.sort_unstable();
    assert_eq!(events, ["refund_failed", "wait_too_long"]);
}
