//! The names of hosts.

use crate::*;

/// Returns the name of the host that a request is counted for, as events have it.
async fn name_of(uri: &str, host: Option<&str>) -> String {
    let name = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&name);
    let layer = layer(Policy::gcra("outgoing", Quota::per_second(50)))
        .observe(move |event| event.host.clone_into(&mut seen.lock().unwrap()));
    let client =
        layer.layer(service_fn(|_: Request<Body>| ready(Ok::<_, Infallible>(response(200, &[])))));
    let mut request = Request::get(uri).body(Body::default()).unwrap();
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host.parse().unwrap());
    }
    client.oneshot(request).await.unwrap();
    name.lock().unwrap().clone()
}

#[tokio::test]
async fn one_host_has_one_name() {
    for (uri, name) in [
        ("https://api/", "api"),
        ("https://api:443/", "api"),
        ("https://api:0443/", "api"),
        ("http://api:80/", "api"),
        ("https://api./", "api"),
        ("https://API.:443/path?query", "api"),
        ("https://api:/", "api"),
        ("https://user:secret@api:443/", "api"),
        ("https://user:secret@API.:8443/", "api:8443"),
        ("http://api:443/", "api:443"),
        ("https://api:80/", "api:80"),
        ("https://sub.api/", "sub.api"),
        ("http://127.0.0.1:80/", "127.0.0.1"),
        ("http://[::1]:80/", "[::1]"),
        ("http://[::1]:8080/", "[::1]:8080"),
    ] {
        assert_eq!(name_of(uri, None).await, name, "{uri}");
    }
}

/// The client knows the scheme of such a request, and this layer does not.
#[tokio::test]
async fn the_field_host_names_requests_without_a_host_in_their_uri() {
    for (field, name) in [
        (Some("API.:8080"), "api:8080"),
        (Some("api:443"), "api:443"),
        (Some("user:secret@api"), "api"),
        (Some("/no host/"), ""),
        (None, ""),
    ] {
        assert_eq!(name_of("/path", field).await, name, "{field:?}");
    }
    assert_eq!(name_of("http://api/", Some("other")).await, "api");
}
