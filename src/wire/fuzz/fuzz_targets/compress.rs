#![no_main]

#[path = "../../tests/compress/fuzz_body.rs"]
mod fuzz_body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_body::compress(data));
