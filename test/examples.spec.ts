// The programs in examples/ run on the package as it is built, and print this.

import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect } from 'chai';

const run = promisify(execFile);
const folder = fileURLToPath(new URL('../examples', import.meta.url));

const PRINTS: Record<string, string[]> = {
  'emulator.mjs': [
    'hello from the guest',
    'interrupt',
    'EFAULT: the queue is broken: segment at 0x7ffff000, length 4, is outside every region; reset it',
    'broken: true',
  ],
  'tables.mjs': [
    'never                 16 of 32 buffers fit at once,   0 % through tables, threshold 1',
    'always                32 of 32 buffers fit at once, 100 % through tables, threshold 1',
    'static                16 of 32 buffers fit at once,   0 % through tables, threshold 16',
    'adaptive              32 of 32 buffers fit at once,  99 % through tables, threshold 1',
    'adaptive-hysteresis   32 of 32 buffers fit at once,  69 % through tables, threshold 64',
  ],
  'workers.mjs': ['10000 buffers served', 'sum of the squares below 10000: 333283335000'],
};

describe('examples', () => {
  it('are all tested here', () => {
    expect(readdirSync(folder).sort()).to.deep.equal(Object.keys(PRINTS));
  });

  for (const [name, lines] of Object.entries(PRINTS)) {
    it(`${name} prints what it should`, async () => {
      const { stdout } = await run(process.execPath, [join(folder, name)], { timeout: 60_000 });
      expect(stdout.trimEnd().split('\n')).to.deep.equal(lines);
    });
  }
});
