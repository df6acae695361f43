//! Shared access signatures of Event Grid and of Service Bus, before and after they are verified.

#![no_main]

use everpost::base::Timestamp;
use everpost::model::access::{AccessKeys, Secret};
use everpost::wire::sas;
use everpost::wire::service_bus::sas::{SasTokenText, sign};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (key, now) = (Secret::new("a2V5"), Timestamp::from_ms(0));
    let keys = AccessKeys {
        key1: key.clone(),
        key2: key.clone(),
    };
    let _ = sas::verify(text, &keys, now);
    if let Ok(token) = SasTokenText::parse(text) {
        let _ = (token.resource(), token.verify([&key], now));
    }
    // Whatever is signed is granted as it was signed.
    let signed = sign(text, text, Timestamp::from_ms(1_000_000), &key);
    let signed = signed.trim_start_matches("SharedAccessSignature ");
    let token = SasTokenText::parse(signed).expect("a token");
    assert_eq!(token.rule(), text);
});
