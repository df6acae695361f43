//! Configuration as code.

#![no_main]

use everpost::app::fuzzing::read_configuration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    read_configuration(text);
});
