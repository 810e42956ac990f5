import { isDeepStrictEqual } from 'node:util';

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

/** Runs a step; what goes wrong in it says which step it was. */
export function inStep(index: number, op: string, step: () => void): void {
  try {
    step();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new Mismatch(`step ${index} (${op}): ${text}`, { cause: error });
  }
}
