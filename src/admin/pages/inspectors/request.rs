//! A request that an inspector keeps.

use crate::admin::page::*;
use crate::admin::paths::inspected_page;
use crate::admin::widgets::kept_body::KeptBody;
use crate::model::inspector::InspectedRequest;
use crate::model::name::InspectorName;
use crate::wire::received::SIGNATURE_GOOD;

/// Bytes of a body that are shown among others.
const BODY_SHOWN: usize = 4_096;

/// A request, folded up or not.
#[derive(Template)]
#[template(path = "widgets/inspected.html")]
pub(crate) struct RequestCard {
    request: InspectedRequest,
    body: KeptBody,
    /// The page of the request alone, if more is kept than is shown.
    more: Option<String>,
    open: bool,
}

part!(RequestCard);

impl RequestCard {
    /// Among others, its body cut short.
    pub(crate) fn new(inspector: &InspectorName, request: InspectedRequest, open: bool) -> Self {
        let shown = request.body_start.len().min(BODY_SHOWN);
        let is_cut = shown < request.body_start.len();
        Self {
            body: KeptBody::new(&request.body_start[..shown], request.bytes),
            more: is_cut.then(|| inspected_page(inspector, request.number)),
            request,
            open,
        }
    }

    /// With as much of its body as is kept.
    pub(crate) fn whole(request: InspectedRequest) -> Self {
        Self {
            body: KeptBody::new(&request.body_start, request.bytes),
            more: None,
            request,
            open: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str, bytes: u64) -> InspectedRequest {
        InspectedRequest {
            number: 7,
            received_at: "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339"),
            method: "POST".to_owned(),
            path: "/bin?***".to_owned(),
            headers: vec![("x-a".to_owned(), "<b>\u{202e}".to_owned())],
            bytes,
            body_start: body.into(),
            handshake: None,
            events: 3,
            event_id: Some("a-1".to_owned()),
            event_type: Some("Order.Paid".to_owned()),
            signature: Some("good".to_owned()),
            response: "503".to_owned(),
        }
    }

    fn check(card: &RequestCard, texts: &[&str]) {
        let html = card.to_string();
        for text in texts {
            assert!(html.contains(text), "{text:?} is missing:\n{html}");
        }
    }

    #[test]
    fn a_request_is_shown_with_what_it_carries() {
        let name = InspectorName::parse("bin").expect("a name");
        let card = RequestCard::new(&name, request("[{\"id\":1}]", 10), true);
        check(
            &card,
            &[
                "Order.Paid a-1 and 2 more",
                "badge bad",
                "503",
                "Signature fits",
                " open",
                "x-a: &#60;b&#62;\\u{202e}",
                "  {\n    &#34;id&#34;: 1\n  }",
                "10 B",
            ],
        );
        let long = "x".repeat(BODY_SHOWN + 1);
        let card = RequestCard::new(&name, request(&long, 9_999), false);
        check(
            &card,
            &[
                "href=\"/admin/inspectors/bin/requests/7\"",
                "9.8 KiB, of which",
            ],
        );
        assert!(!card.to_string().contains(" open"), "{card}");
        assert!(!card.to_string().contains(&long));
        assert!(
            RequestCard::whole(request(&long, 9_999))
                .to_string()
                .contains(&long)
        );
    }

    #[test]
    fn what_is_no_delivery_is_named() {
        let mut handshake = request("", 0);
        handshake.handshake = Some("abuseProtection".to_owned());
        check(
            &RequestCard::whole(handshake),
            &["Handshake of CloudEvents, agreed to"],
        );
        let mut unread = request("hello", 5);
        unread.events = 0;
        unread.signature = Some("no signature fits the secret".to_owned());
        check(
            &RequestCard::whole(unread),
            &["No event that could be read", "no signature fits"],
        );
    }
}
