// What a Linux guest is made of: Debian's kernel for amd64 and its static busybox, kept outside the repository.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'vring', 'linux-guest');

/** Modules in the order in which they are loaded, as paths below the kernel's folder. */
const MODULES = [
  'drivers/virtio/virtio_ring.ko',
  'drivers/virtio/virtio.ko',
  'drivers/virtio/virtio_pci_legacy_dev.ko',
  'drivers/virtio/virtio_pci_modern_dev.ko',
  'drivers/virtio/virtio_pci.ko',
  'net/core/failover.ko',
  'drivers/net/net_failover.ko',
  'drivers/net/virtio_net.ko',
  'drivers/block/virtio_blk.ko',
];

export interface GuestParts {
  /** Paths of files. */
  kernel: string;
  busybox: string;
  /** In the order in which they are loaded. */
  modules: string[];
}

/** Finds the parts, or fetches them from Debian. @throws Error that says what is missing */
export function guestParts(): GuestParts {
  if (!existsSync(CACHE)) fetchParts();
  const boot = join(CACHE, 'boot');
  const kernel = readdirSync(boot).find((name) => name.startsWith('vmlinuz-'));
  if (kernel === undefined) throw missing(`${boot} has no kernel`);
  const folder = join(CACHE, 'lib/modules', kernel.slice('vmlinuz-'.length), 'kernel');
  return {
    kernel: join(boot, kernel),
    busybox: join(CACHE, 'bin/busybox'),
    modules: MODULES.map((name) => join(folder, name)),
  };
}

const missing = (why: string): Error =>
  new Error(
    `a Linux guest needs Debian's amd64 packages linux-image-amd64 (the one that it depends on) and busybox-static: ` +
      `${why}. Unpack both with \`dpkg -x PACKAGE ${CACHE}\``,
  );

function run(command: string, args: string[], cwd?: string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw missing(`\`${command} ${args.join(' ')}\` failed: ${error ?? stderr.trim()}`);
  return stdout;
}

/** The package that has the current kernel. Packages of another architecture have it in their names. */
function kernelPackage(): string {
  const name = run('apt-cache', ['depends', 'linux-image-amd64']).match(/Depends: (linux-image-\S+)/)?.[1];
  if (name === undefined) throw missing('linux-image-amd64 names no kernel');
  return name;
}

function fetchParts(): void {
  let kernel: string;
  try {
    kernel = kernelPackage();
  } catch (error) {
    if (process.getuid?.() !== 0) throw error;
    run('apt-get', ['update']);
    kernel = kernelPackage();
  }
  const folder = `${CACHE}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    run('apt-get', ['download', kernel, 'busybox-static'], folder);
    const packages = readdirSync(folder);
    const whole = join(folder, 'whole');
    mkdirSync(whole);
    for (const name of packages) run('dpkg', ['-x', name, whole], folder);
    // All of it or nothing.
    renameSync(whole, CACHE);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
