// Runs the tests of the rings on the debug build of the engine, whose assertions trap.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);

/** The specs that work on rings; the others would show nothing more. */
const RINGS = [
  'test/{cases,engine,packed,split}/**/*.spec.ts',
  'test/{bad-input,fuzz,golden,hostile,lockstep,memory}.spec.ts',
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
