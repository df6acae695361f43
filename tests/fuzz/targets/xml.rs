//! What the administration clients of Service Bus send.

#![no_main]

use everpost::wire::service_bus::atom;
use everpost::wire::service_bus::description::{access_rules, first_rule, read};
use everpost::wire::service_bus::xml::Element;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(element) = Element::parse(text) {
        assert!(Element::parse(&element.to_string()).is_ok(), "what is written is read");
    }
    if let Ok((kind, description)) = atom::read(text) {
        read(kind, &description);
        let _ = (first_rule(&description), access_rules(&description));
    }
});
