// Builds everything that the package ships: the WebAssembly modules, the library with its types, and the
// command line.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);

function run(...args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

rmSync(join(root, 'dist'), { recursive: true, force: true });
run('scripts/build-wasm.mjs');
run(require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build.json');
run(require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build-node.json');
run('scripts/build-lib.mjs');
run('scripts/build-cli.mjs');
