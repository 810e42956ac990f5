// Makes `npm start` and `npm test` work by themselves in a fresh clone: installs what package-lock.json
// says if that has not been done, and builds if a source has changed since the last build. Needs nothing
// but Node.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`vring needs Node 20.19 or newer, this is ${process.versions.node}`);
  process.exit(1);
}

function run(command, args, what) {
  console.error(`${what} …`);
  const shell = process.platform === 'win32';
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2], shell });
  if (error || status !== 0) {
    console.error(
      `${what} failed${error ? `: ${error.message}` : ''}; run \`${command} ${args.join(' ')}\` to see more`,
    );
    process.exit(1);
  }
}

function hash(paths) {
  const digest = createHash('sha256');
  const add = (path) => {
    for (const entry of readdirSync(join(root, path), { withFileTypes: true }).sort((a, b) =>
      a.name < b.name ? -1 : 1,
    )) {
      const child = join(path, entry.name);
      if (entry.isDirectory()) add(child);
      else if (entry.name !== 'generated.ts') digest.update(child).update(readFileSync(join(root, child)));
    }
  };
  for (const path of paths) {
    if (/\.\w+$/.test(path)) digest.update(path).update(readFileSync(join(root, path)));
    else add(path);
  }
  return digest.digest('hex');
}

function upToDate(stamp, value) {
  const file = join(root, stamp);
  return existsSync(file) && readFileSync(file, 'utf8') === value;
}

function mark(stamp, value) {
  const file = join(root, stamp);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, value);
}

const lock = hash(['package-lock.json']);
if (!upToDate('node_modules/.vring-installed', lock)) {
  run('npm', ['ci', '--no-audit', '--no-fund'], 'Installing dependencies');
  mark('node_modules/.vring-installed', lock);
}

const sources = hash([
  'assembly',
  'src',
  'bench',
  'scripts',
  'package.json',
  'package-lock.json',
  'asconfig.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'tsconfig.build-node.json',
]);
if (!upToDate('build/.vring-built', sources) || !existsSync(join(root, 'src/engine/wasm/generated.ts'))) {
  run(process.execPath, ['scripts/build.mjs'], 'Building');
  mark('build/.vring-built', sources);
}
