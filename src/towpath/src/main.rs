//! The `towpath` executable. A binary with filters of your own is this file with a longer registry:
//! `towpath::run(towpath::builtin::registry().with::<MyFilter>())`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    towpath::run(towpath::builtin::registry())
}
