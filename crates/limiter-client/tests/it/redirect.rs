//! A layer inside of this one that follows redirects.

use tower_http::follow_redirect::FollowRedirectLayer;

use crate::*;

/// What another host has sent can't be known by account, so nothing is learned of it.
#[tokio::test(start_paused = true)]
async fn a_followed_redirect_teaches_nothing_if_a_closure_names_the_hosts() {
    let layer = unlimited().host(|head| Some(head.headers.get("x-account")?.to_str().ok()?.into()));
    let client = ServiceBuilder::new().layer(layer).layer(FollowRedirectLayer::new());
    let client = client.service(service_fn(|request: Request<Body>| {
        let response = match request.uri().host().unwrap() {
            "a.example" => response(302, &[("location", "http://b.example/")]),
            _ => response(429, &[("retry-after", "30")]),
        };
        ready(Ok::<_, Infallible>(response))
    }));
    let start = Instant::now();
    for _ in 0..3 {
        let request = Request::get("http://a.example/").header("x-account", "alice");
        let response = client.clone().oneshot(request.body(Body::default()).unwrap()).await;
        assert_eq!(response.unwrap().status(), 429);
    }
    assert_eq!(start.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_followed_redirect_teaches_the_host_that_answered() {
    let client = ServiceBuilder::new().layer(unlimited()).layer(FollowRedirectLayer::new());
    let client = client.service(service_fn(|request: Request<Body>| {
        let response = match (request.uri().host().unwrap(), request.uri().path()) {
            ("a.example", "/moved") => response(302, &[("location", "http://b.example/")]),
            ("a.example", _) => response(200, &[]),
            _ => response(429, &[("retry-after", "30")]),
        };
        ready(Ok::<_, Infallible>(response))
    }));
    let start = Instant::now();
    for (uri, status, seconds) in [
        ("http://a.example/moved", 429, 0),
        ("http://a.example/", 200, 0),
        ("http://b.example/", 429, 30),
    ] {
        let request = Request::get(uri).body(Body::default()).unwrap();
        let response = client.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{uri}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{uri}");
    }
}

/// A host that has only redirected is known after its first response: others go with the burst of the pace.
#[tokio::test(start_paused = true)]
async fn a_host_that_redirects_is_known() {
    let limiter = limiter(Quota::per_second(1).with_burst(10));
    let layer = ThrottleLayer::with_limiter(limiter).unwrap();
    let client = ServiceBuilder::new().layer(layer).layer(FollowRedirectLayer::new());
    let client = client.service(service_fn(|request: Request<Body>| {
        ready(Ok::<_, Infallible>(match request.uri().host().unwrap() {
            "a.example" => response(302, &[("location", "http://b.example/")]),
            _ => response(200, &[]),
        }))
    }));
    let start = Instant::now();
    for _ in 0..5 {
        let response = client.clone().oneshot(request_to("a.example")).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(start.elapsed().as_secs(), 0);
}

/// Returns the address of a server that responds like this to any path but `/`.
async fn serve(status: u16, name: &'static str, value: String) -> String {
    let app = Router::new().fallback(move |uri: Uri| async move {
        if uri.path() == "/" { response(200, &[]) } else { response(status, &[(name, &value)]) }
            .map(|_| String::new())
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn a_redirect_that_reqwest_has_followed_teaches_the_host_that_answered() {
    let refusing = serve(429, "retry-after", "30".to_owned()).await;
    let moved = serve(302, "location", format!("{refusing}/refused")).await;
    let layer = layer(Policy::gcra("outgoing", Quota::per_second(100)));
    let reqwest = reqwest::Client::new();
    let client = layer.within(SECOND).layer(service_fn(move |request: Request<&'static str>| {
        let reqwest = reqwest.clone();
        async move {
            let response = reqwest.execute(request.try_into()?).await?;
            Ok::<_, reqwest::Error>(Response::from(response).map(drop))
        }
    }));
    let get = |url: String| client.clone().oneshot(Request::get(url).body("").unwrap());
    assert_eq!(get(format!("{moved}/moved")).await.unwrap().status(), 429);
    assert_eq!(get(format!("{moved}/")).await.unwrap().status(), 200);
    let error = get(format!("{refusing}/")).await.unwrap_err();
    assert!(matches!(error, ThrottleError::NotSent(NotSent::WaitTooLong { .. })), "{error:?}");
}
