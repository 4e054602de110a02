//! Each way in which limits of others have leaked permits, by name.

use std::{
    future::{pending, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

use http_body::Frame;
use limiter_tower::in_flight::RequestPermit;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;

use super::*;

#[tokio::test]
async fn cancel_before_the_limiter_has_answered_gives_back_what_it_takes() {
    let counter = Counter::new("uploads", 1).slow();
    let rule = rule_of(&counter);
    let service = behind(&rule, never);
    for polls in 0..4 {
        let mut request = Box::pin(service.clone().call(Request::new(Body::default())));
        for _ in 0..polls {
            assert!(poll_once(request.as_mut()).is_none());
        }
        drop(request);
        assert_eq!((counter.held(), rule.held()), (0, 0), "after {polls} polls");
    }
}

type Frames = Vec<Option<Result<Frame<Bytes>, BoxError>>>;
type Row<'r> = (&'r dyn Fn() -> Frames, &'r [(&'r str, u32)]);

/// What a poll of a body returned.
fn described(polled: Poll<Option<Result<Frame<Bytes>, BoxError>>>) -> String {
    match polled {
        Poll::Pending => "pending".into(),
        Poll::Ready(None) => "end".into(),
        Poll::Ready(Some(Ok(frame))) => if frame.is_data() { "data" } else { "trailers" }.into(),
        Poll::Ready(Some(Err(error))) => error.to_string(),
    }
}

/// The frames of a body, and what its polls return, with how many permits are held then. At last it is dropped.
#[tokio::test]
async fn a_stream_holds_its_permit_for_as_long_as_it_lasts() {
    let data = || Some(Ok(Frame::data(Bytes::from("data"))));
    let trailers = || Some(Ok(Frame::trailers(HeaderMap::new())));
    let broken = || Some(Err("broken".into()));
    let rows: [Row<'_>; 4] = [
        // With the last frame, the inner body says that it has ended.
        (
            &|| vec![data(), None, data(), None, data()],
            &[("data", 1), ("pending", 1), ("data", 1), ("pending", 1), ("data", 0), ("end", 0)],
        ),
        (&|| vec![data(), broken(), None], &[("data", 1), ("broken", 0)]),
        (&|| vec![data(), data()], &[("data", 1)]),
        // More than one frame is left, as far as the inner body knows.
        (&|| vec![data(), trailers(), data()], &[("data", 1), ("trailers", 0)]),
    ];
    for (row, (frames, polls)) in rows.into_iter().enumerate() {
        let (rule, counter) = rule(1);
        let frames = Arc::new(Mutex::new(vec![frames()]));
        let service = behind(&rule, move |_| {
            let mut frames = frames.lock().unwrap().pop().unwrap();
            frames.reverse();
            async { Ok(Response::new(Stream(frames))) }
        });
        let mut body = send(&service).await.into_body();
        for (polled, held) in polls {
            let found = described(next(&mut body));
            assert_eq!((&*found, counter.held()), (*polled, *held), "row {row}");
            if *held > 0 {
                assert_eq!(send(&service).await.status(), 429, "row {row}");
            }
        }
        drop(body);
        assert_eq!((counter.held(), rule.held()), (0, 0), "row {row}");
    }
}

#[tokio::test]
async fn a_panic_in_a_handler_gives_the_permit_back() {
    let (rule, counter) = rule(1);
    let service = behind(&rule, |_| async { panic!("a handler panics") });
    let mut request = Box::pin(service.clone().call(Request::new(Body::default())));
    assert!(catch_unwind(AssertUnwindSafe(|| poll_once(request.as_mut()))).is_err());
    drop(request);
    assert_eq!(counter.held(), 0);
    // As a server runs it: in a task.
    let task = tokio::spawn(async move { send(&service).await.status() });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(counter.held(), 0);
}

#[tokio::test]
async fn work_after_the_response_holds_the_permit_if_it_says_so() {
    let (rule, counter) = rule(1);
    let (end, ended) = oneshot::channel::<()>();
    let ended = Mutex::new(Some(ended));
    let ended = Arc::new(ended);
    let service = behind(&rule, move |request| {
        let (permit, ended) = (permit_of(&request), ended.lock().unwrap().take());
        async move {
            let guard = permit.hold();
            tokio::spawn(async move {
                if let Some(ended) = ended {
                    ended.await.unwrap();
                }
                drop(guard);
            });
            empty(Request::default()).await
        }
    });
    drop(send(&service).await);
    assert_eq!(counter.held(), 1, "the response has ended, and the work has not");
    assert_eq!(send(&service).await.status(), 429);
    end.send(()).unwrap();
    while counter.held() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cloned_extensions_keep_nothing() {
    let (rule, counter) = rule(1);
    let (sender, receiver) = std::sync::mpsc::channel();
    let service = behind(&rule, move |request| {
        sender.send(request.extensions().clone()).unwrap();
        two_frames(request)
    });
    drop(send(&service).await);
    assert_eq!(counter.held(), 0);
    let extensions = receiver.recv().unwrap();
    let permit = extensions.get::<RequestPermit>().unwrap();
    assert!(permit.hold().is_none(), "a permit that was given back can't be held");
}

#[tokio::test]
async fn reload_a_lower_limit_and_another_layer_lose_nothing() {
    let (rule, counter) = rule(2);
    let service = behind(&rule, two_frames);
    let responses = [send(&service).await, send(&service).await];
    rule.set_limit(1).unwrap();
    // A layer that is built anew from the same rule counts what the old one holds.
    let rebuilt = behind(&rule.clone(), two_frames);
    assert_eq!((counter.held(), rule.limit()), (2, 1));
    assert_eq!(send(&rebuilt).await.status(), 429);
    drop((service, responses));
    assert_eq!((counter.held(), rule.held()), (0, 0));
    assert_eq!(send(&rebuilt).await.status(), 200);
}

#[tokio::test]
async fn responses_without_a_body_end_at_once() {
    let (rule, counter) = rule(1);
    let of_status = |status| {
        behind(&rule, move |_| async move {
            let mut response = Response::new(stream([data()]));
            *response.status_mut() = status;
            Ok(response)
        })
    };
    for (service, method, held) in [
        (behind(&rule, empty), Method::GET, 0),
        (behind(&rule, two_frames), Method::HEAD, 0),
        (of_status(StatusCode::NOT_MODIFIED), Method::GET, 0),
        (of_status(StatusCode::NO_CONTENT), Method::GET, 0),
        (of_status(StatusCode::NOT_FOUND), Method::GET, 1),
    ] {
        let response = send_by(&service, method.clone()).await;
        assert_eq!(counter.held(), held, "{method} {}", response.status());
        drop(response);
        assert_eq!(counter.held(), 0);
    }
}

#[tokio::test]
async fn an_inner_service_that_fails_gives_the_permit_back() {
    let (rule, counter) = rule(1);
    let failing = service_fn(|_: Request<Body>| ready(Err::<Response<Body>, _>("failed")));
    let mut service = InFlightLayer::all([rule.clone()]).layer(failing);
    let mut future = Box::pin(service.call(Request::new(Body::default())));
    assert_eq!(poll_once(future.as_mut()).unwrap().map(|_| ()).unwrap_err(), "failed");
    assert_eq!((counter.held(), rule.held()), (0, 0), "given back before the future is dropped");
}

#[tokio::test]
async fn a_service_that_is_ready_holds_nothing() {
    let (rule, counter) = rule(1);
    let mut service = behind(&rule, two_frames);
    for _ in 0..3 {
        service.ready().await.unwrap();
        assert_eq!((counter.held(), counter.calls()), (0, vec![]));
    }
    let future: Pin<Box<_>> = Box::pin(service.call(Request::new(Body::default())));
    assert_eq!(counter.held(), 1);
    drop(future);
    assert_eq!(counter.held(), 0);
}

/// Notes how many permits are held when it is dropped.
struct Noted(Counter, std::sync::mpsc::Sender<u32>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.send(self.0.held()).unwrap();
    }
}

#[tokio::test]
async fn work_ends_before_its_permit_is_given_back() {
    let (rule, counter) = rule(1);
    let (sender, at_drop) = std::sync::mpsc::channel();
    let noted = move || Noted(counter.clone(), sender.clone());
    let in_handler = noted.clone();
    // The handler's future.
    let service = behind(&rule, move |_| {
        let noted = in_handler();
        async move {
            let _noted = noted;
            pending().await
        }
    });
    drop(start(&service));
    assert_eq!((at_drop.recv().unwrap(), rule.held()), (1, 0));
    // The body.
    let layer = InFlightLayer::all([rule.clone()]);
    let service = layer.layer(service_fn(move |_: Request<Body>| {
        let noted = noted();
        // Dropped with the stream.
        let frames = tokio_stream::iter([1, 2]).map(move |_| {
            let _noted = &noted;
            Ok::<_, Infallible>(Frame::data(Bytes::from("data")))
        });
        let body = http_body_util::StreamBody::new(frames);
        ready(Ok::<_, Infallible>(Response::new(http_body_util::combinators::UnsyncBoxBody::new(
            body,
        ))))
    }));
    drop(service.oneshot(Request::new(Body::default())).await.unwrap());
    assert_eq!((at_drop.recv().unwrap(), rule.held()), (1, 0));
}

/// A server reads all of a body that is one piece at once, whether or not its client reads.
#[tokio::test]
async fn a_last_piece_holds_the_permit_until_it_is_written() {
    for (length, held) in [(16 * 1024, 0), (16 * 1024 + 1, 1)] {
        let (rule, counter) = rule(1);
        let service = behind(&rule, move |_| async move {
            Ok(Response::new(stream([Some(Frame::data(vec![b'a'; length].into()))])))
        });
        let mut body = send(&service).await.into_body();
        let Poll::Ready(Some(Ok(frame))) = next(&mut body) else { panic!("a frame") };
        assert!(http_body::Body::is_end_stream(&body));
        drop(body);
        let bytes = frame.into_data().unwrap();
        assert_eq!((bytes.len(), counter.held()), (length, held));
        // A part of it is still to be written.
        let rest = bytes.slice(1..);
        drop(bytes);
        assert_eq!(counter.held(), held);
        drop(rest);
        assert_eq!((counter.held(), rule.held()), (0, 0));
    }
}
