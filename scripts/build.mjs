// Builds everything that the package ships: the WebAssembly modules, dist/src (library) and dist/cli.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);

function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

run('scripts/build-wasm.mjs');
run(require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build.json');
run('scripts/build-cli.mjs');
