/** Dark and light: as the system has it, or as chosen here. */

const CHOICES = ["system", "light", "dark"];
const NAMES = { system: "◐", light: "☀", dark: "☾" };

/** Make a button change the colours of the page; `onChange` redraws canvases. */
export function startTheme(button, onChange) {
  let choice = "system";
  try {
    choice = localStorage.getItem("theme") ?? "system";
  } catch {
    // A browser that stores nothing begins with the colours of the system.
  }
  const apply = () => {
    if (!CHOICES.includes(choice)) choice = "system";
    document.documentElement.dataset.theme = choice;
    button.textContent = NAMES[choice];
    button.setAttribute("aria-label", `Colours: ${choice}`);
    button.title = `Colours: ${choice}`;
    onChange();
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    try {
      localStorage.setItem("theme", choice);
    } catch {
      // The choice then lasts as long as the page.
    }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}
