import { VringError } from '../../errors.js';

/** Pause between two looks at a register that a device changes when it is ready. */
const PAUSE_MS = 1;

/**
 * Reads until the device shows `wanted`, at most `polls` times.
 * @throws VringError EIO if it never does
 */
export async function polled(
  polls: number,
  what: string,
  wanted: number,
  read: () => Promise<number>,
): Promise<void> {
  let value = await read();
  for (let left = polls - 1; value !== wanted; left--) {
    if (left <= 0)
      throw new VringError(
        'EIO',
        `${what} is still ${value} after ${polls} reads, not ${wanted}: the device does not respond`,
      );
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    value = await read();
  }
}
