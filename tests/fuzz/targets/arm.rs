//! ARM templates, and the expressions in them: as a whole file, or as one expression that a template uses.

#![no_main]

use everpost::app::fuzzing::{read_expression, read_template};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    read_template(text);
    read_expression(text);
});
