fn main() -> std::process::ExitCode {
    towpath::run(plugin::registry())
}
