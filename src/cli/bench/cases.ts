import type { Params } from '../report.js';

const NAMES: Record<string, string> = { size: 'ring size', eventIdx: 'event index' };

export const paramName = (key: string): string => NAMES[key] ?? key;

export const paramValue = (value: string | number | boolean): string =>
  typeof value === 'boolean' ? (value ? 'on' : 'off') : `${value}`;

/**
 * Short labels for cases: what makes each one differ from the values that are most common, which together
 * are the centre of the sweep.
 */
export function caseLabels(cases: readonly Params[]): { centre: string; label(params: Params): string } {
  const centre = new Map<string, string | number | boolean>();
  for (const key of new Set(cases.flatMap((params) => Object.keys(params)))) {
    const counts = new Map<string | number | boolean, number>();
    for (const params of cases) counts.set(params[key], (counts.get(params[key]) ?? 0) + 1);
    const [most] = [...counts].sort((a, b) => b[1] - a[1])[0];
    centre.set(key, most);
  }
  const say = (key: string, value: string | number | boolean) => `${paramName(key)} ${paramValue(value)}`;
  return {
    centre: [...centre].map(([key, value]) => say(key, value)).join(', '),
    label(params) {
      const parts = Object.entries(params).filter(([key, value]) => value !== centre.get(key));
      return parts.length === 0 ? 'centre' : parts.map(([key, value]) => say(key, value)).join(', ');
    },
  };
}
