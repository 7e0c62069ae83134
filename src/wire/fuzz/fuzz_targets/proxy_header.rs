#![no_main]

#[path = "../../tests/pair/fuzz_bodies.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::proxy_header(data));
