import type { Result } from '../report.js';
import { ambiguous } from './cases.js';

/** How a contender looks in every chart and legend of a report. */
export interface Series {
  key: string;
  label: string;
  /** A CSS variable, so that one drawing serves light and dark. */
  colour: string;
  dash: string;
}

// Warm for WebAssembly, cool for TypeScript, grey for what is no engine. A dash pattern goes with each
// shade, for those who cannot tell the colours apart.
const FAMILIES: Record<string, number> = { wasm: 3, typescript: 3 };
const DASHES = ['none', '6 3', '2 3', '8 3 2 3'];

export const keyOf = ({ name, engine }: Result): string => `${engine} ${name}`;

export function seriesOf(results: readonly Result[]): Series[] {
  const all = new Map<string, Series>();
  const unclear = ambiguous(results);
  const used: Record<string, number> = {};
  for (const result of results) {
    const key = keyOf(result);
    if (all.has(key)) continue;
    const { name, engine } = result;
    const index = used[engine] ?? 0;
    used[engine] = index + 1;
    const shades = FAMILIES[engine];
    all.set(key, {
      key,
      label: unclear(name) ? `${name}, ${engine}` : name,
      colour: shades === undefined ? 'var(--other)' : `var(--${engine}-${index % shades})`,
      dash: DASHES[index % DASHES.length],
    });
  }
  return [...all.values()];
}
