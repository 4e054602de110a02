//! Credentials, which nothing that the layer prints may contain.

use std::fmt;

use crate::*;

const URI: &str = "http://user:secret@a.example/path?token=secret#secret";

/// An error as reqwest has it, with the URI in its text and its `Debug`.
#[derive(Debug)]
struct Failed(String, io::Error);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error sending request for url ({})", self.0)
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.1)
    }
}

/// Sends a request that fails, and one that would wait too long, and returns the errors.
async fn fail_twice(layer: &ThrottleLayer) -> [ThrottleError<BoxError>; 2] {
    let client = layer.layer(service_fn(|_: Request<Body>| async {
        let source = io::Error::other("can't GET user:secret@a.example:80/path?token=secret");
        Err::<Response<Body>, BoxError>(Failed(URI.to_owned(), source).into())
    }));
    let request = |host: &str| {
        let request = Request::get("/path?token=secret").header(HOST, host);
        request.header("authorization", "secret").body(Body::default()).unwrap()
    };
    let get = |host| client.clone().oneshot(request(host));
    [get("user:secret@a.example").await.unwrap_err(), get("a.example").await.unwrap_err()]
}

fn slow() -> ThrottleLayer {
    let layer = throttle(Quota::per_minute(1));
    layer.within(Duration::from_secs(1))
}

#[tokio::test(start_paused = true)]
async fn events_print_no_credentials() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let layer = slow().observe(move |event| seen.lock().unwrap().push(format!("{event:?}")));
    fail_twice(&layer).await;
    let events = events.lock().unwrap();
    println!("{events:#?}");
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events.iter().all(|event| !event.contains("secret")), "{events:?}");
    assert!(
        events[1].contains("error sending request for url (http://a.example/path"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn errors_print_no_credentials() {
    let [failed, late] = fail_twice(&slow()).await;
    for text in [format!("{failed:?}"), format!("{late:?}"), late.to_string()] {
        assert!(!text.contains("secret"), "{text}");
    }
    // Another request's error has no secret of this one, and is a text already.
    let cause = late.into_boxed().source().unwrap().to_string();
    assert!(cause.contains("a.example/path") && !cause.contains("secret"), "{cause}");
    // The error itself is the caller's own.
    let ThrottleError::Inner(error) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains(URI), "{error}");
}

#[test]
fn an_error_prints_hosts_and_paths_alone() {
    for (text, printed) in [
        ("connection refused", "connection refused"),
        ("really? and #1", "really? and #1"),
        ("for url (http://user:secret@a/b?secret)", "for url (http://a/b"),
        ("http://user:p@secret@a:80#secret", "http://a:80"),
        ("GET /path?secret  failed", "GET /path  failed"),
        ("http://a/,http://user:secret@b/c", "http://a/,http://b/c"),
        ("http://a,http://user:secret@b/c", "http://a,http://b/c"),
        ("user:secret@a", "a"),
        ("http://a/@scope/package", "http://a/@scope/package"),
    ] {
        let error = ThrottleError::Inner(text);
        assert_eq!(format!("{error:?}"), format!("Inner({printed:?})"));
    }
}

#[test]
fn a_client_prints_nothing_of_the_inner_service() {
    let client = format!("{:?}", slow().layer("a client with a secret"));
    assert!(client.contains("outgoing") && !client.contains("secret"), "{client}");
}

/// The error of a failed connection may be as long as its author wants, and is kept for each host.
#[tokio::test(start_paused = true)]
async fn the_text_of_an_error_is_cut() {
    let client = slow().layer(service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(io::Error::other("ä".repeat(1_000_000)))
    }));
    let get = || client.clone().oneshot(request_to("a.example"));
    get().await.unwrap_err();
    let late = get().await.unwrap_err();
    let cause = late.source().unwrap().to_string();
    assert!(cause.len() > 100 && cause.len() <= 1_100, "{}", cause.len());
}

mod log {
    use std::{
        cell::RefCell,
        fmt::{Debug, Write},
    };

    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span,
    };

    use super::*;

    thread_local! {
        /// What was logged on this thread.
        static LINES: RefCell<String> = const { RefCell::new(String::new()) };
    }

    struct Lines;

    impl Visit for Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            LINES.with_borrow_mut(|lines| write!(lines, "{field}={value:?} ").unwrap());
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "limiter_client"
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut Self);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn log_lines_print_no_credentials() {
        // For all threads: with one for this thread, an event that another thread meets first interests nobody.
        tracing::subscriber::set_global_default(Lines).unwrap();
        fail_twice(&slow()).await;
        let lines = LINES.take();
        println!("{lines}");
        assert!(lines.contains("request failed") && lines.contains("request not sent"), "{lines}");
        assert!(!lines.contains("secret"), "{lines}");
        assert!(lines.contains("a.example/path"), "{lines}");
    }
}
