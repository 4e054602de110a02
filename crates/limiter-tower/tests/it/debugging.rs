//! What is printed for developers has no credentials.

use http::header::AUTHORIZATION;

use crate::*;

const QUERY: &str = "in-the-query";
const HEADER: &str = "in-a-header";
const KEY: &str = "in-the-key";
const COOKIE: &str = "in-a-cookie";
const EXTENSION: &str = "in-an-extension";

#[derive(Clone, Debug)]
struct User(#[expect(dead_code, reason = "is printed")] &'static str);

fn request() -> Request<Body> {
    let mut request = crate::request();
    *request.uri_mut() = format!("/export?token={QUERY}").parse().unwrap();
    request.headers_mut().insert(AUTHORIZATION, HEADER.parse().unwrap());
    request.headers_mut().insert("x-api-key", KEY.parse().unwrap());
    request.extensions_mut().insert(User(EXTENSION));
    request
}

#[tokio::test]
async fn no_query_header_value_or_secret_key_is_printed() {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let print = |kind: &'static str| {
        let printed = Arc::clone(&printed);
        move |short: String, long: String| printed.lock().unwrap().push((kind, short, long))
    };
    let (limiter, _) = limiter_of(Policy::gcra("default", Quota::per_hour(1)));
    let key =
        HeaderKey::new(HeaderName::from_static("x-api-key")).secret().assume_verified().or_reject();
    let (in_cost, in_settle, in_event) = (print("head"), print("response"), print("event"));
    let (in_refusal, in_refused, in_ask) = (print("refusal"), print("refused"), print("ask"));
    let rule = Rule::new(limiter, key)
        .cost(move |head| {
            in_cost(format!("{head:?}"), format!("{head:#?}"));
            Cost::ONE
        })
        .settle(move |response| {
            in_settle(format!("{response:?}"), format!("{response:#?}"));
            Keep::All
        });
    let service = layer_of([rule.clone()])
        .observe(move |event| in_event(format!("{event:?}"), format!("{event:#?}")))
        .answers(Answers::new().refuse_with(move |refusal| {
            in_refusal(format!("{refusal:?}"), format!("{refusal:#?}"));
            in_refused(format!("{:?}", **refusal), format!("{:#?}", **refusal));
            Response::new(Bytes::new())
        }))
        .layer(service_fn(async |_: Request<Body>| {
            let response = Response::builder().header("set-cookie", COOKIE);
            Ok::<_, Infallible>(response.body(Body::default()).unwrap())
        }));
    let admitted = send(&service, request()).await;
    assert_eq!(header(admitted.headers(), "set-cookie"), Some(COOKIE));
    send(&service, request()).await;
    let request = request();
    let ask = rule.ask(&request);
    in_ask(format!("{ask:?}"), format!("{ask:#?}"));
    let refused = ask.await.unwrap_err();
    print("refused")(format!("{refused:?}"), format!("{refused:#?}"));

    let printed = printed.lock().unwrap();
    for kind in ["head", "response", "event", "refusal", "refused", "ask"] {
        assert!(printed.iter().any(|(found, ..)| *found == kind), "no {kind}");
    }
    for (kind, short, long) in printed.iter() {
        for secret in [QUERY, HEADER, KEY, COOKIE, EXTENSION] {
            assert!(!short.contains(secret) && !long.contains(secret), "{kind}: {short}");
        }
    }
    let event = printed.iter().find(|(kind, ..)| *kind == "event").unwrap();
    assert!(event.1.contains("[secret]") && event.1.contains("/export"), "{}", event.1);
}

#[test]
fn heads_print_what_they_are_known_by() {
    assert_eq!(
        format!("{:?}", Head::from(&request())),
        "Head { method: GET, path: \"/export\", .. }"
    );
    let response = Response::builder().status(404).header("set-cookie", COOKIE).body(()).unwrap();
    assert_eq!(format!("{:?}", ResponseHead::from(&response)), "ResponseHead { status: 404, .. }");
}
