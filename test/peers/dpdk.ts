// What the tests against DPDK have in common.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missingTestpmd } from '../../bench/dpdk/testpmd.js';
import { type Host, loadEngine } from '../../src/index.js';

/** Frames of a test. There and back each is two buffers at least: a million. */
export const FRAMES = Number(process.env.VRING_PEER_FRAMES ?? 500_000);

/** How long they may take. */
export const DEADLINE_MS = 170_000;

export interface Place {
  engine: Host;
  /** Of its own for each test, which removes it. */
  folder: string;
  /** A socket in it. */
  socket: string;
}

/** Prepares the tests of a `describe`; filled in before each of them. @param bytes of the engine's memory */
export function prepareDpdk(bytes: number): Place {
  const place = {} as Place;
  before(async () => {
    const missing = missingTestpmd();
    if (missing !== undefined) throw new Error(missing);
    place.engine = await loadEngine({ size: bytes, shared: true });
  });
  beforeEach(() => {
    place.folder = mkdtempSync(join(tmpdir(), 'vring-'));
    place.socket = join(place.folder, 's');
  });
  afterEach(() => rmSync(place.folder, { recursive: true }));
  return place;
}
