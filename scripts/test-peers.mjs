// Runs the tests against peers that are not ours. What they need from Debian is installed if this is allowed;
// else the tests say what is missing. `npm run test:peers -- -g packed` passes options on to mocha.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const PARTS = [['dpdk-testpmd', 'dpdk-dev']];

const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const missing = PARTS.filter(([program]) => !has(program)).map(([, part]) => part);
if (missing.length > 0) {
  const command = ['apt-get', 'install', '-y', '--no-install-recommends', ...missing];
  if (process.getuid?.() === 0 && has('apt-get')) {
    console.error(`Installing ${missing.join(', ')} …`);
    spawnSync('apt-get', ['update'], { stdio: 'ignore' });
    spawnSync(command[0], command.slice(1), { stdio: ['ignore', 2, 2] });
  } else console.error(`missing: ${missing.join(', ')}; as root: ${command.join(' ')}`);
}

const { status } = spawnSync(
  process.execPath,
  ['node_modules/mocha/bin/mocha.js', 'test/peers/*.peer.ts', '--exit', ...process.argv.slice(2)],
  { cwd: root, stdio: 'inherit' },
);
process.exit(status ?? 1);
