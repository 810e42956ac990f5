import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { GuestParts } from './parts.js';

const FILE = 0o100_755;
const FOLDER = 0o040_755;
const CONSOLE = 0o020_600;

/** One entry of an archive in the "newc" format of cpio. */
function entry(name: string, mode: number, content: Uint8Array = new Uint8Array(0), device = [0, 0]): Buffer {
  const numbers = [0, mode, 0, 0, 1, 0, content.length, 0, 0, ...device, name.length + 1, 0];
  const head = `070701${numbers.map((n) => n.toString(16).padStart(8, '0')).join('')}${name}\0`;
  const pad = (length: number): Buffer => Buffer.alloc(-length & 3);
  return Buffer.concat([Buffer.from(head), pad(head.length), content, pad(content.length)]);
}

/** A file system for a guest that loads the virtio drivers and then runs `job`, a shell script. */
export function initramfs({ busybox, modules }: GuestParts, job: string): Buffer {
  const init = `#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
${modules.map((path) => `insmod /${basename(path)}`).join('\n')}
${job}
`;
  return Buffer.concat([
    ...['bin', 'dev', 'proc', 'sys'].map((name) => entry(name, FOLDER)),
    entry('dev/console', CONSOLE, undefined, [5, 1]),
    entry('bin/busybox', FILE, readFileSync(busybox)),
    ...modules.map((path) => entry(basename(path), FILE, readFileSync(path))),
    entry('init', FILE, Buffer.from(init)),
    entry('TRAILER!!!', 0),
  ]);
}
