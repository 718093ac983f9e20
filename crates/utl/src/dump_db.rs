use crate::cli::Invocation;
use crate::error::Failure;
pub fn run(_: &Invocation) -> Result<(), Failure> {
    Ok(())
}
