import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { main } from '../../src/cli/main.js';

export const CAPTURES = fileURLToPath(new URL('../data/captures/', import.meta.url));

/** Runs a command line in this process. */
export async function vring(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const result = { code: 0, out: '', err: '' };
  const io = {
    out: (text: string) => {
      result.out += `${text}\n`;
    },
    err: (text: string) => {
      result.err += `${text}\n`;
    },
    columns: 100,
  };
  result.code = await main(argv, io, '1.2.3');
  return result;
}

/** Calls `use` with a folder that is removed afterwards. */
export async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'vring-'));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
