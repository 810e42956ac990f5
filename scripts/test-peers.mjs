// Runs the tests against programs that others wrote: test/peers/*.peer.ts, or those that are named. What a
// test needs of Debian is installed where that is allowed.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** First word of a file's name → a program that its tests run, and the Debian package that has it. */
const PARTS = {
  dpdk: ['dpdk-testpmd', 'dpdk-dev'],
  qemu: ['qemu-system-x86_64', 'qemu-system-x86'],
};

const run = (command, ...args) => spawnSync(command, args, { cwd: root, stdio: 'inherit' }).status ?? 1;
const present = (program) =>
  (process.env.PATH ?? '').split(':').some((folder) => {
    try {
      return readdirSync(folder).includes(program);
    } catch {
      return false;
    }
  });

const files = process.argv.slice(2);
if (files.length === 0)
  for (const name of readdirSync(join(root, 'test/peers')).sort())
    if (name.endsWith('.peer.ts')) files.push(join('test/peers', name));

const parts = new Set(files.map((file) => PARTS[basename(file).split('-')[0]]).filter(Boolean));
const packages = [...parts].filter(([program]) => !present(program)).map(([, name]) => name);
if (packages.length > 0) {
  const install = ['apt-get', 'install', '-y', '--no-install-recommends', ...packages];
  if (process.getuid?.() !== 0 || !present('apt-get')) {
    console.error(`missing: install ${packages.join(', ')}, on Debian with \`sudo ${install.join(' ')}\``);
    process.exit(1);
  }
  if (run('apt-get', 'update') !== 0 || run(...install) !== 0) process.exit(1);
}
process.exit(run(process.execPath, 'node_modules/mocha/bin/mocha.js', '--no-parallel', '--exit', ...files));
