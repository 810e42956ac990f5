// Runs the tests of the rings on the debug build of the engine, whose assertions trap.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);

/** The specs that drive rings and their tables hardest. */
const RINGS = [
  'test/golden.spec.ts',
  'test/hostile.spec.ts',
  'test/indirect/*.spec.ts',
  'test/lockstep.spec.ts',
];

const { status } = spawnSync(
  process.execPath,
  [require.resolve('mocha/bin/mocha.js'), ...(process.argv.length > 2 ? process.argv.slice(2) : RINGS)],
  {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, VRING_WASM: 'build/vring.debug.wasm' },
    stdio: 'inherit',
  },
);
process.exit(status ?? 1);
