import { isDeepStrictEqual } from 'node:util';
import { VringError } from '../../src/index.js';

/** Our side did something else than the trace shows. */
export class Mismatch extends Error {
  override name = 'Mismatch';
}

const show = (value: unknown) =>
  value instanceof Uint8Array
    ? Buffer.from(value).toString('hex')
    : JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `0x${v.toString(16)}` : v));

/** Throws unless what we did is what the trace shows. */
export function agree(what: string, ours: unknown, trace: unknown): void {
  if (!isDeepStrictEqual(ours, trace))
    throw new Mismatch(`${what}: ours ${show(ours)}, trace ${show(trace)}`);
}

/** Throws unless `act` is refused with this code. */
export function refuses(what: string, act: () => unknown, code: string): void {
  let error: unknown;
  try {
    act();
  } catch (thrown) {
    error = thrown;
  }
  if (!(error instanceof VringError)) throw new Mismatch(`${what}: no VringError`);
  agree(`${what}: code`, error.code, code);
}

/** Runs a step; what goes wrong in it says which step it was. */
export function inStep(index: number, op: string, step: () => void): void {
  try {
    step();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new Mismatch(`step ${index} (${op}): ${text}`, { cause: error });
  }
}
