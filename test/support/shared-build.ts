// The text of the shared build of the WebAssembly engine: where a barrier cannot be seen at work, it can be
// read there.

import { readFileSync } from 'node:fs';

const STEP =
  /\b(?:[if](?:32|64)\.(?:atomic\.)?(?:load|store)\w*|memory\.\w+)|\b(?:call|return|br|br_if)\b(?: \S+)?/g;

/**
 * What an exported function of the shared build does to memory, callees included, in the order of the text;
 * with `return` where it ends and `br` where it may go back or skip.
 */
export function sharedBuild(name: string): string[] {
  const wat = readFileSync(new URL('../../build/vring.shared.wat', import.meta.url), 'utf8');
  const bodies = new Map<string, string>();
  for (const part of wat.split(/\n \(func /).slice(1)) bodies.set(part.slice(0, part.search(/[\s(]/)), part);
  const exported = new RegExp(`\\(export "${name}" \\(func ([^)]+)\\)\\)`).exec(wat);
  if (exported === null) throw new Error(`the shared build has no export ${name}`);
  /** With `outer`, a return from this function is one from the exported function. */
  const inline = (callee: string, outer: boolean): string[] => {
    const steps = bodies.get(callee)?.match(STEP) ?? [];
    return steps.flatMap((step, i) => {
      const [what, target] = step.split(' ');
      if (what === 'call') return inline(target, outer && i === steps.length - 1);
      if (what === 'return') return outer ? ['return'] : [];
      return what === 'br' || what === 'br_if' ? ['br'] : [step];
    });
  };
  return [...inline(exported[1], true), 'return'];
}

export const isAtomic = (step: string): boolean => step.includes('.atomic.');

/** What comes right after each atomic store, and which store it is. */
export function afterAtomicStores(steps: string[]): { store: string; next: string }[] {
  return steps.flatMap((store, i) =>
    store.includes('.atomic.store') ? [{ store, next: steps[i + 1] }] : [],
  );
}
